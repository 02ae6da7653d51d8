"""A schedule in seeded worlds where processes die, replies are lost, the store goes away and clocks are set.

Whatever happens, each of its planned times is fired once, and its job comes to its end once.
"""

import asyncio
import os
from collections import Counter
from datetime import datetime, timedelta
from itertools import count
from random import Random

import pytest
from msgspec.structs import replace

from simulator.land import draw_land
from simulator.loop import VirtualLoop
from simulator.replacing import replaced
from simulator.run import _sweep
from simulator.story import SETTINGS, Story
from simulator.world import World
from standfast import Every
from standfast.errors import ScheduleExistsError, StandfastError
from standfast.model import ids
from standfast.model.job import PLANNED_KEY
from standfast.model.records import Decision
from standfast.model.states import FINAL, State
from standfast.schedules import fires as procedures
from standfast.schedules.schedule import Template
from standfast.stores.memory.records import RecordVerbs
from standfast.stores.verb import arun_procedure

SEEDS = range(400 if os.environ.get("STANDFAST_PROVE") else 4)
EVERY = timedelta(seconds=20)
RULE = Every(EVERY, anchored=True, misfire="all", catch_up_window=None, catch_up_limit=10_000, overlap="allow")
AHEAD = timedelta(seconds=SETTINGS.look_ahead)
JOB = Template("work", b'{"v":1,"args":{"kind":"ok","seconds":0.5}}', max_attempts=20)


class TickingStory(Story):
    """A story whose jobs come from a schedule."""

    async def _enqueue_jobs(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SETTINGS.store_timeout):
                    await arun_procedure(
                        self._world.call, procedures.create(self._world.store, "ticks", RULE, JOB, AHEAD)
                    )
            except ScheduleExistsError:  # by a try whose answer was lost
                return
            except (TimeoutError, StandfastError):
                await asyncio.sleep(0.2)
            else:
                return

    async def _meddle(self) -> None:
        """Leave jobs and queues alone."""

    async def _settle(self) -> None:
        """Wait until all that was planned has come to its end."""
        await asyncio.sleep(4 * SETTINGS.lease)
        until = self._world.clock.boot() + 400
        while self._world.clock.boot() < until and self._unfinished():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)

    async def _be_punctual(self) -> None:
        """Let what the last kill has caught come to its end too."""
        await super()._be_punctual()
        await self._settle()

    def _unfinished(self) -> bool:
        now = self._world.store_clock.now()
        return any(row.state not in FINAL and row.run_at < now for row in self._world.store._jobs.values())


def judge(world: World) -> list[str]:
    """Return what is wrong with the fires."""
    fires = [fire for fire in world.store._fires.values() if fire.schedule == "ticks"]
    broken = [f"{fire.planned} was {fire.decision}" for fire in fires if fire.decision not in _FIRED]
    jobs = [row for row in world.store._jobs.values() if PLANNED_KEY in row.new.metadata]
    times = Counter(datetime.fromisoformat(row.new.metadata[PLANNED_KEY]) for row in jobs)
    broken += [f"{time} was fired {count} times" for time, count in times.items() if count > 1]
    if times:
        span = range((max(times) - min(times)) // EVERY + 1)
        broken += [f"{time} was dropped" for n in span if (time := min(times) + n * EVERY) not in times]
    now = world.store_clock.now()
    broken += [
        f"{row.new.metadata[PLANNED_KEY]} never ended: {row.state}"
        for row in jobs
        if row.state is not State.COMPLETED and row.run_at < now - timedelta(seconds=5)
    ]
    if not times or max(times) < now - EVERY:
        broken.append(f"nothing was fired after {max(times, default=None)}, and it is {now}")
    return broken


_FIRED = {Decision.FIRED, Decision.CAUGHT_UP}


class SeededIds:
    """Ids that are the same in each run of a world, so that what is found in one can be found again."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._made = count(1)

    def next(self) -> str:
        return f"{next(self._made):08x}-0000-7000-8000-{self._random.getrandbits(48):012x}"


def play(seed: int) -> list[str]:
    async def whole() -> list[str]:
        world = World(seed, draw_land(seed))
        await TickingStory(world).play()
        broken = [*world.trace.violations, *judge(world)]
        await _sweep(world)
        return broken

    with replaced(ids, "_sequence", SeededIds(seed)), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@pytest.mark.parametrize("seed", SEEDS)
def test_each_planned_time_is_fired_once(seed: int) -> None:
    """No kill, stall, outage, lost reply or clock step drops or doubles a fire."""
    assert play(seed) == []


def test_who_does_not_compare_versions_is_caught() -> None:
    """The test can fail: a store that changes a record whatever its version lets two supervisors fire one time."""
    change = RecordVerbs._change

    def broken(self: RecordVerbs, wish):
        record = self._records.get((wish.kind, wish.name))
        return change(self, replace(wish, seen=0 if record is None else record.version, after=None))

    with replaced(RecordVerbs, "_change", broken):
        assert any("times" in word for seed in range(40) for word in play(seed))
