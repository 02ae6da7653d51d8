"""Gates: what is full in one process is left to others, and never exceeded, whatever happens.

Real workers on one file, and worlds in virtual time: seeded ones in which processes die, replies are lost and the
store goes away, and calm ones for peak hours and the adaptive gate.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from itertools import pairwise

import gates_app
import pytest
from fleet import wait_until
from gates_app import LIMIT

from simulator.fleet import Tree
from simulator.land import draw_land
from simulator.loop import VirtualLoop
from simulator.replacing import replaced
from simulator.run import _judge, _sweep
from simulator.story import SETTINGS, Story
from simulator.world import World
from standfast import Window
from standfast.model.job import ClaimRef, NewJob
from standfast.model.states import Move, State
from standfast.schedules.adaptive import TICK, Adaptive
from standfast.schedules.limits import Limit, Limits
from standfast.stores.values import JobFilter
from standfast.worker.limits import Gate, Gates

SEEDS = range(300 if os.environ.get("STANDFAST_PROVE") else 6)
KINDS = {"task": ("scan",), "gate": ("copy", "move"), "queue": ("send",)}
EACH = 2 * LIMIT + 1


@pytest.mark.timeout(120)
def test_what_is_full_here_another_idle_worker_takes(fleet_on, tmp_path):
    """A task, a gate and a queue are full in one process: their jobs wait in the store until another one comes."""
    fleet = fleet_on(module=gates_app)
    until = str(tmp_path / "go on")
    kind_of = {
        fleet.enqueue(names[number % len(names)], until=until): kind
        for kind, names in KINDS.items()
        for number in range(EACH)
    }

    def running() -> Counter[tuple[str, str]]:
        jobs = fleet.app.call(fleet.app.verbs.list_jobs(JobFilter(states=(State.RUNNING,), limit=100))).jobs
        return Counter((kind_of[job.id], fleet.history(job.id)[-1].worker) for job in jobs)

    [one] = fleet.start_workers(1, concurrency=20)
    wait_until(lambda: running().total() == LIMIT * len(KINDS), what="the first worker's share")
    free = [fleet.enqueue("note") for _ in range(5)]
    for job_id in free:
        fleet.wait_for(job_id, State.COMPLETED, within=10)
    first = fleet.worker_of(one).info.id
    assert running() == {(kind, first): LIMIT for kind in KINDS}
    assert fleet.count(State.READY) == (EACH - LIMIT) * len(KINDS)
    [other] = fleet.start_workers(1, concurrency=20)
    wait_until(lambda: running().total() == 2 * LIMIT * len(KINDS), what="the second worker's share")
    second = fleet.worker_of(other).info.id
    assert running() == {(kind, worker): LIMIT for kind in KINDS for worker in (first, second)}
    (tmp_path / "go on").touch()
    fleet.wait_for_completed(len(kind_of) + len(free))
    histories = [fleet.history(job_id) for job_id in kind_of]
    assert sum(attempt.how == Move.RELEASE for history in histories for attempt in history) <= 2 * len(kind_of)


LIMITS = Limits(
    gates={"disk": Limit(3)},
    queues={"mail": Limit(2, ((Window("00:01", "00:02"), 1),))},
    tasks={"work": Limit(4)},
    gates_of={"work": ("disk",)},
)
MOST = {"queue": 2, "task": 3}


class GatedWorld(World):
    """A world that sees how many run at a time in one process."""

    full = 0

    def check_start(self, worker: str, ref: ClaimRef) -> None:
        super().check_start(worker, ref)
        mine = [self.store.look(ref.job_id)]
        mine += [self.store.look(other.job_id) for who, other in self.ledger.running if who == worker]
        counted = {
            "queue": sum(seen.queue == "mail" for seen in mine),
            "task": sum(seen.task == "work" for seen in mine),
        }
        self.full += counted["task"] == MOST["task"]
        if any(counted[kind] > MOST[kind] for kind in MOST):
            self.violate(f"{ref.job_id} started beyond a limit: {counted}")


class GatedStory(Story):
    """A story in which not all that is due may start."""

    async def _probe(self) -> None:
        """Expect nothing at once: a gate may be full."""

    async def _be_punctual(self) -> None:
        """Expect nothing on time either."""


def play(seed: int) -> GatedWorld:
    async def whole() -> GatedWorld:
        world = GatedWorld(seed, draw_land(seed))
        world.limits = LIMITS
        story = GatedStory(world)
        await story.play()
        _judge(world, story)
        await _sweep(world)
        return world

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_limit_is_exceeded_and_no_job_starves(seed: int) -> None:
    """No kill, stall, outage, lost reply or clock step lets one too many in, or keeps one out for good."""
    assert play(seed).trace.violations == []


def test_gates_are_full_in_these_worlds() -> None:
    """They have what they are for."""
    assert all(play(seed).full for seed in (1, 5))


def test_a_worker_that_does_not_look_before_a_start_is_caught() -> None:
    """The test can fail: without the gates at a start, what was claimed together starts together."""
    with replaced(Gate, "is_full", property(lambda _: False)):
        assert _caught(range(6))


NAP = 7
PEAK = Window("00:01", "00:02")  # the world begins at midnight


def ran(limits: Limits, during: Callable[[World], Awaitable[None]], seconds: int) -> list[int]:
    """Return how many jobs ran in the middle of each second of a world with far too many of them."""

    async def whole() -> list[int]:
        world = World(1)
        world.limits = limits
        naps = b'{"v":1,"args":{"kind":"ok","seconds":%d}}' % NAP
        await world.call(world.store.enqueue([NewJob(f"nap-{number}", "work", naps) for number in range(300)]))
        Tree(world, SETTINGS, 1)
        beside = asyncio.ensure_future(during(world))
        counts = []
        for second in range(seconds):
            await asyncio.sleep(second + 0.5 - world.clock.boot())
            counts.append(len(world.ledger.running))
        beside.cancel()
        await _sweep(world)
        assert world.trace.violations == []
        return counts

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@pytest.mark.parametrize(
    "limits", [Limits(tasks={"work": Limit(4, ((PEAK, 1),))}), Limits(worker=Limit(None, ((PEAK, 1),)))]
)
def test_a_peak_on_the_clock_of_a_world(limits: Limits) -> None:
    """All run until it begins; those go on, and one at a time starts inside; at the minute all start again."""

    async def nothing(_: World) -> None:
        """Let time go by."""

    counts = ran(limits, nothing, 140)
    assert set(counts[10:60]) == {4}
    assert set(counts[68:120]) == {1}
    assert set(counts[121:]) == {4}


def test_a_gate_that_nobody_leaves_is_caught() -> None:
    """The test can fail: a worker that forgets who has left lets nobody in any more."""

    def forget(self: Gates, claim: object, lasted: float) -> None:
        """Count nothing."""

    async def nothing(_: World) -> None:
        """Let time go by."""

    with replaced(Gates, "leave", forget):
        assert ran(Limits(tasks={"work": Limit(4)}), nothing, 20)[-1] == 0


def test_an_adaptive_gate_in_virtual_time() -> None:
    """While the host's loop lags fewer run, down to the lowest; afterwards the number comes back step by step."""
    adaptive = Adaptive(lag=0.05, lowest=1, clock=lambda: asyncio.get_running_loop().time())

    async def host(world: World) -> None:
        while True:
            await asyncio.sleep(TICK)
            adaptive.observe_lag(0.2 if 30 <= world.clock.boot() < 50 else 0.001)

    counts = ran(Limits(adaptive=adaptive), host, 140)
    assert set(counts[10:30]) == {4}
    assert set(counts[42:50]) == {1}
    assert set(counts[120:]) == {4}
    ups = counts[50:]
    assert all(after - before <= 2 for before, after in pairwise(ups)), "it came back all at once"


def _caught(seeds: Iterable[int]) -> bool:
    return any(play(seed).trace.violations for seed in seeds)
