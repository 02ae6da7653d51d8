"""Who folds figures when: on the moment who has the first turn, others only when that was missed."""

import asyncio
from random import Random

import pytest

from figures_stage import Stage
from simulator.world import VirtualClock
from standfast.events import Events, JobDied
from standfast.model.job import Failure
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import BeatAnswer, Turn
from standfast.supervisor.figures import FigureKeeper
from standfast.worker.storecalls import StoreCalls

pytestmark = pytest.mark.virtual_time


class Bench:
    """One supervisor's figures over a store in memory, in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.clock)
        self.stage = Stage(self.backend, self.clock)
        calls = StoreCalls(self.backend, self.clock, Events(), Random(1), 5.0)
        self.keeper = FigureKeeper(calls, self.clock, "s1")

    def beat(self, rank: int) -> None:
        due_at = self.backend.run(self.backend.verbs.beat([])).record_due_at
        turns = {"w": Turn(rank, 3)}
        self.keeper.heed(BeatAnswer(frozenset({"w"}), self.clock.now(), turns=turns, record_due_at=due_at))


@pytest.mark.parametrize(("rank", "seconds"), [(0, 0), (1, 10), (2, 20)])
async def test_the_first_folds_on_the_moment_and_others_when_that_was_missed(rank: int, seconds: int) -> None:
    """A part is due twenty seconds after its minute: so many seconds later it is folded."""
    bench = Bench()
    bench.stage.count(Move.COMPLETE)
    await bench.stage.publish()
    [part] = bench.backend.run(bench.backend.verbs.records(Kind.TALLY))
    loop = asyncio.create_task(bench.keeper.run())
    while not bench.stage.records():
        bench.beat(rank)
        await asyncio.sleep(5)
    loop.cancel()
    late = (bench.clock.now() - part.due_at).total_seconds()
    assert seconds <= late <= seconds + 5


async def test_deaths_that_a_supervisor_tells_of_are_counted() -> None:
    """They are published as what workers have counted is."""
    bench = Bench()
    bench.beat(0)
    bench.keeper.hear(JobDied("job", "send", "mail", 1, 1, Failure("Crash", "killed")))
    await bench.keeper.publisher.publish()
    [row] = bench.stage.read().by_pair()
    assert (row.queue, row.task, row.dead) == ("mail", "send", 1)
