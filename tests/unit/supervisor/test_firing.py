"""Who looks at schedules when: on the moment who has the first turn, and anybody once they are overdue."""

import asyncio
from datetime import timedelta
from random import Random

import pytest

from simulator.world import VirtualClock
from standfast import Every
from standfast.events import Events, ScheduleFired
from standfast.model.records import Change, Kind
from standfast.schedules import fires
from standfast.schedules.schedule import Template
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import BeatAnswer, Turn
from standfast.stores.verb import run_procedure
from standfast.supervisor.scheduler import Firing
from standfast.worker.storecalls import StoreCalls

pytestmark = pytest.mark.virtual_time

RULE = Every(30, anchored=True, overlap="allow")


class Bench:
    """One supervisor's firing over a store in memory, in virtual time."""

    def __init__(self, ahead: float = 10.0) -> None:
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.clock)
        self.events = Events()
        self.fired: list[tuple[float, ScheduleFired]] = []
        self.events.subscribe(lambda event: self.fired.append((self.clock.boot(), event)))
        calls = StoreCalls(self.backend, self.clock, self.events, Random(1), 5.0)
        self.ahead = timedelta(seconds=ahead)
        self.firing = Firing(calls, self.clock, self.events, self.ahead)

    def create(self, name: str = "tidy", rule=RULE) -> None:
        verbs = self.backend.verbs
        run_procedure(self.backend.run, fires.create(verbs, name, rule, Template("tidy", b"{}"), self.ahead))

    def beat(self, *, rank: int) -> None:
        due_at = self.backend.run(self.backend.verbs.beat([])).record_due_at
        now = self.clock.now()
        self.firing.heed(BeatAnswer(frozenset({"w"}), now, turns={"w": Turn(rank, 2)}, record_due_at=due_at))


@pytest.mark.parametrize(("rank", "seconds"), [(0, 20), (1, 22)])
async def test_the_first_looks_on_the_moment_and_others_when_it_is_overdue(rank: int, seconds: int) -> None:
    """Due at 20 s, which is ten before its time: the first of the fleet is there then, another at its next beat."""
    bench = Bench()
    bench.create()
    loop = asyncio.create_task(bench.firing.run())
    await asyncio.sleep(2)
    for _ in range(5):
        bench.beat(rank=rank)
        await asyncio.sleep(5)
    loop.cancel()
    assert [round(at) for at, _ in bench.fired] == [seconds]


async def test_without_a_living_worker_nothing_is_fired() -> None:
    """A supervisor whose children are not accepted has no place in the fleet, and leaves schedules to others."""
    bench = Bench()
    bench.create()
    loop = asyncio.create_task(bench.firing.run())
    await asyncio.sleep(60)
    due_at = bench.backend.run(bench.backend.verbs.beat([])).record_due_at
    bench.firing.heed(BeatAnswer(frozenset(), bench.clock.now(), record_due_at=due_at))
    await asyncio.sleep(60)
    loop.cancel()
    assert bench.fired == []


async def test_what_cannot_be_read_is_said_once_and_hinders_nobody(caplog) -> None:
    """A record of a newer release stays due: the others are fired all the same, and the log has one line."""
    bench = Bench()
    strange = Change(Kind.SCHEDULE, "strange", 0, "t", b'{"rule":"moon"}', bench.clock.now())
    bench.backend.run(bench.backend.verbs.change_records([strange]))
    bench.create()
    loop = asyncio.create_task(bench.firing.run())
    for _ in range(12):
        bench.beat(rank=0)
        await asyncio.sleep(5)
    loop.cancel()
    assert len(bench.fired) == 2
    assert [record.message for record in caplog.records if "cannot be read" in record.message][1:] == []
    assert "'strange' cannot be read" in caplog.text
