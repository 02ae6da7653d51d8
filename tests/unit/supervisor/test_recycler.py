"""Replacing children by overlap: the old one leaves only when the fresh one works, and stays where that fails."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from household import Moody

from simulator.fleet import SimulatedChild
from simulator.loop import VirtualLoop
from simulator.process import Process
from simulator.wires import MemoryLog, WireEnd
from simulator.world import VirtualClock
from standfast.errors import StoreUnavailableError
from standfast.events import Event, Events, WorkerNotRecycled, WorkerRecycling
from standfast.settings import Settings
from standfast.stores.verb import arun_procedure
from standfast.supervisor.child import Child, ChildSpec, Phase
from standfast.supervisor.locks import RECYCLE, Permit, take_permit
from standfast.supervisor.orders import Order, RefusedError
from standfast.supervisor.plan import Ports
from standfast.supervisor.recycler import Limits, Recycler, Urgency
from standfast.worker.storecalls import StoreCalls

STARTS_WITHIN = 2.0
MB = 1_000_000


class Crew:
    """Children that start and leave as the test says, and never a moment without one that works."""

    def __init__(self, clock: VirtualClock, size: int) -> None:
        self.stopping = False
        self.clock = clock
        self.alive: list[Child] = []
        self.starts_within = STARTS_WITHIN
        self.fails = 0
        """So many of the next children die at their start."""
        self.drains_for = 0.0
        self.let_go_within: list[float] = []
        self.fewest = size
        self.memory: dict[int, int] = {}
        for _ in range(size):
            self._work(self._new())

    def living(self) -> list[Child]:
        return list(self.alive)

    async def relieve(self, old: Child) -> Child | None:
        fresh = self._new()
        fresh.relieves, old.successor = old, fresh
        asyncio.get_running_loop().call_later(self.starts_within, self._started, fresh)
        return fresh

    def let_go(self, child: Child, within: float) -> None:
        self.let_go_within.append(within)
        child.phase = Phase.LEAVING
        child.replace.set()
        self.fewest = min(self.fewest, sum(each.phase is Phase.WORKING for each in self.alive))
        asyncio.get_running_loop().call_later(self.drains_for, self.end, child)

    def end(self, child: Child) -> None:
        child.ended()
        self.alive.remove(child)

    def _started(self, child: Child) -> None:
        if self.fails:
            self.fails -= 1
            child.verdict = "SyntaxError"
            self.end(child)
        else:
            self._work(child)

    def _work(self, child: Child) -> None:
        child.phase = Phase.WORKING
        child.warm.set()

    def _new(self) -> Child:
        number = len(self.memory) + 1
        self.memory[number] = 50 * MB
        near, _ = WireEnd.pair(Process(0, "supervisor"), process := Process(number, "child"))
        child = SimulatedChild(process, near, MemoryLog())
        boot, now = self.clock.boot(), self.clock.now()
        self.alive.append(Child(ChildSpec(f"w{number}"), child, boot, started_boot=boot, started_at=now))
        return self.alive[-1]


class Scene:
    """A recycler with its crew, and others of the fleet on the same store."""

    def __init__(self, size: int = 1, **settings) -> None:
        self.clock = VirtualClock()
        self.backend = Moody(self.clock)
        self.told: list[tuple[float, Event]] = []
        self.crew, self.recycler = self.join("ours", size, **settings)

    def join(self, name: str, size: int = 1, **settings) -> tuple[Crew, Recycler]:
        events = Events()
        events.subscribe(lambda event: self.told.append((self.clock.boot(), event)))
        calls = StoreCalls(self.backend, self.clock, Events(), Random(1), 5.0)
        ports = Ports(None, None, self.clock, Random(1), events)
        crew = Crew(self.clock, size)
        limits = Limits(Settings(**settings))
        recycler = Recycler(
            crew,
            limits,
            Permit(calls, self.clock, name, 15.0),
            ports,
            memory=lambda pids: {p: crew.memory[p] for p in pids},
        )
        self.running = asyncio.ensure_future(recycler.run())
        return crew, recycler

    def events(self, kind: type[Event]) -> list[tuple[int, Event]]:
        return [(round(at), event) for at, event in self.told if isinstance(event, kind)]


def play(story: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


def test_the_old_one_leaves_when_the_fresh_one_works() -> None:
    async def story() -> None:
        scene = Scene(size=2, recycle_age=100)
        await asyncio.sleep(120)
        assert {child.worker for child in scene.crew.alive} == {"w3", "w4"}
        assert scene.crew.fewest == 2
        (first, _), (second, _) = scene.events(WorkerRecycling)
        assert second - first >= STARTS_WITHIN

    play(story)


def test_one_after_the_other_also_while_the_one_before_drains() -> None:
    async def story() -> None:
        scene = Scene(size=3, recycle_age=100, drain_limit=77)
        scene.crew.drains_for = 60
        await asyncio.sleep(115)
        assert len(scene.events(WorkerRecycling)) == 1
        assert scene.crew.let_go_within == [77]
        await asyncio.sleep(150)
        assert len(scene.events(WorkerRecycling)) >= 3

    play(story)


def test_far_too_much_memory_does_not_wait_for_a_drain_nor_for_the_store() -> None:
    async def story() -> None:
        scene = Scene(size=2, recycle_memory=100 * MB)
        await asyncio.sleep(2)
        scene.crew.drains_for = 600
        scene.crew.memory[1] = 101 * MB
        await asyncio.sleep(5)
        assert scene.crew.alive[0].phase is Phase.LEAVING
        scene.backend.away = True
        scene.crew.memory[2] = 151 * MB
        await asyncio.sleep(5)
        assert [child.phase for child in scene.crew.alive[:2]] == [Phase.LEAVING] * 2

    play(story)


def test_while_the_store_is_away_age_is_no_reason() -> None:
    async def story() -> None:
        scene = Scene(recycle_age=10)
        scene.backend.away = True
        await asyncio.sleep(60)
        assert scene.events(WorkerRecycling) == []
        scene.backend.away = False
        await asyncio.sleep(10)
        assert len(scene.events(WorkerRecycling)) == 1

    play(story)


def test_where_the_fresh_one_dies_the_old_one_stays_and_it_is_tried_again_ever_more_slowly() -> None:
    async def story() -> None:
        scene = Scene(recycle_age=10)
        scene.crew.fails = 4
        [old] = scene.crew.alive
        while scene.crew.fails:
            await asyncio.sleep(1)
            assert old.phase is Phase.WORKING
        await asyncio.sleep(0.1)
        assert old.successor is None
        await asyncio.sleep(15)
        failed = scene.events(WorkerNotRecycled)
        assert [event.pause for _, event in failed] == [1, 2, 4, 8]
        assert {event.error for _, event in failed} == {"SyntaxError"}
        assert old.gone.is_set()

    play(story)


def test_a_reload_replaces_all_without_waiting_for_drains() -> None:
    async def story() -> None:
        scene = Scene(size=3)
        scene.crew.drains_for = 600
        scene.recycler.replace_all(Urgency.RELOAD, "a reload was asked for")
        await asyncio.sleep(15)
        assert [child.phase for child in scene.crew.alive] == [Phase.LEAVING] * 3 + [Phase.WORKING] * 3
        assert scene.crew.fewest == 3

    play(story)


def test_a_reload_of_broken_code_is_tried_once() -> None:
    """The first fresh child says it all: no other is started, and the old ones stay."""

    async def story() -> None:
        scene = Scene(size=3)
        scene.crew.fails = 100
        scene.recycler.replace_all(Urgency.RELOAD, "a reload was asked for")
        await asyncio.sleep(100)
        [(_, event)] = scene.events(WorkerNotRecycled)
        assert event.pause is None
        assert [child.worker for child in scene.crew.alive] == ["w1", "w2", "w3"]

    play(story)


def test_a_reload_asked_for_while_one_of_broken_code_fails_is_not_lost() -> None:
    """The code was put right meanwhile: all children are replaced by the newer wish."""

    async def story() -> None:
        scene = Scene(size=2)
        scene.crew.fails = 1
        scene.recycler.replace_all(Urgency.RELOAD, "a reload was asked for")
        await asyncio.sleep(STARTS_WITHIN / 2)
        scene.recycler.replace_all(Urgency.RELOAD, "a reload was asked for again")
        await asyncio.sleep(30)
        assert len(scene.events(WorkerNotRecycled)) == 1
        assert [child.worker for child in scene.crew.alive] == ["w4", "w5"]

    play(story)


def test_a_reload_does_not_wait_for_a_long_drain_of_another_reason() -> None:
    async def story() -> None:
        scene = Scene(size=2, recycle_age=100)
        scene.crew.drains_for = 600
        await asyncio.sleep(115)
        scene.recycler.replace_all(Urgency.RELOAD, "a reload was asked for")
        await asyncio.sleep(15)
        assert [child.worker for child in scene.crew.alive if child.phase is Phase.WORKING] == ["w4", "w5"]

    play(story)


def test_an_order_is_carried_out_when_its_worker_leaves_and_refused_where_it_cannot() -> None:
    """Who gave it hears why."""

    async def story() -> None:
        scene = Scene()
        order = Order("o", "recycle", "w1", scene.clock.now())
        scene.crew.fails = 1
        with pytest.raises(RefusedError, match="no other could take its place: SyntaxError"):
            await scene.recycler.carry_out(order)
        assert len(scene.events(WorkerNotRecycled)) == 1
        await scene.recycler.carry_out(order)
        assert [child.worker for child in scene.crew.alive if child.phase is Phase.WORKING] == ["w3"]
        await scene.recycler.carry_out(Order("o", "recycle", "unknown", scene.clock.now()))

    play(story)


def test_of_three_supervisors_one_replaces_at_a_time() -> None:
    """Each has its turn; no fresh child starts while another machine drains."""

    async def story() -> None:
        scene = Scene(recycle_age=50)
        crews = [scene.crew, *(scene.join(name, recycle_age=50)[0] for name in ("two", "three"))]
        for crew in crews:
            crew.drains_for = 5
        leaving = 0
        for _ in range(4000):
            await asyncio.sleep(0.1)
            busy = [crew for crew in crews if len(crew.alive) > 1]
            leaving = max(leaving, len(busy))
        assert leaving == 1
        assert all(len(crew.let_go_within) >= 3 for crew in crews)

    play(story)


def test_the_permit_of_a_dead_supervisor_comes_to_its_end() -> None:
    async def story() -> None:
        scene = Scene(recycle_age=1)
        taken = take_permit(scene.backend.verbs, RECYCLE, "dead", timedelta(seconds=15))
        assert await arun_procedure(scene.backend.arun, taken)
        await asyncio.sleep(14)
        assert scene.events(WorkerRecycling) == []
        await asyncio.sleep(6)
        assert scene.events(WorkerRecycling)

    play(story)


def test_a_permit_lost_meanwhile_is_waited_for_and_the_old_one_goes_on(caplog) -> None:
    """An outage longer than its lease: then another machine has it, and only after that may the old one leave."""

    async def story() -> None:
        scene = Scene(recycle_age=10)
        scene.crew.starts_within = 20
        await asyncio.sleep(12)
        old, fresh = scene.crew.alive
        scene.backend.away = True
        await asyncio.sleep(25)
        assert (old.phase, fresh.phase) == (Phase.WORKING, Phase.WORKING)
        scene.backend.away = False
        taken = take_permit(scene.backend.verbs, RECYCLE, "other", timedelta(seconds=15))
        assert await arun_procedure(scene.backend.arun, taken)
        await asyncio.sleep(14)
        assert old.phase is Phase.WORKING
        await asyncio.sleep(10)
        assert old.gone.is_set()
        assert scene.events(WorkerNotRecycled) == []

    play(story)
    assert caplog.text.count("the permit to replace worker w1 was lost") == 1


def test_a_fresh_one_that_dies_while_the_permit_is_lost_has_failed() -> None:
    async def story() -> None:
        scene = Scene(recycle_age=10)
        scene.crew.starts_within = 20
        await asyncio.sleep(12)
        old, fresh = scene.crew.alive
        scene.backend.away = True
        await asyncio.sleep(25)
        scene.crew.end(fresh)
        await asyncio.sleep(2)
        assert len(scene.events(WorkerNotRecycled)) == 1
        assert old.phase is Phase.WORKING

    play(story)


@pytest.mark.parametrize("stopping", [False, True])
def test_an_end_of_the_old_one_meanwhile_is_no_failure(stopping) -> None:
    async def story() -> None:
        scene = Scene(recycle_age=10)
        await asyncio.sleep(12)
        old, fresh = scene.crew.alive
        scene.crew.stopping = stopping
        scene.crew.end(old)
        await asyncio.sleep(STARTS_WITHIN)
        assert scene.events(WorkerNotRecycled) == []
        assert scene.crew.alive == [fresh]
        assert fresh.phase is Phase.WORKING

    play(story)


def test_the_store_failing_to_take_the_permit_back_is_no_trouble() -> None:
    async def story() -> None:
        scene = Scene(recycle_age=10)
        await asyncio.sleep(12)
        scene.backend.away = True
        with pytest.raises(StoreUnavailableError):
            await scene.backend.arun(scene.backend.verbs.workers())
        await asyncio.sleep(10)
        assert len(scene.crew.let_go_within) == 1
        assert not scene.running.done()

    play(story)
