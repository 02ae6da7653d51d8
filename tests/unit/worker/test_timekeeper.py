"""The store is asked for its time while jobs are held here and the time is not known well; else never."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random

import pytest

from simulator.loop import VirtualLoop
from simulator.world import VirtualClock
from standfast.errors import StoreUnavailableError
from standfast.events import Events
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import Verb
from standfast.worker.storecalls import ASK_EVERY, VAGUE, StoreCalls, StoreClock, Timekeeper

AHEAD = timedelta(seconds=45)
LATENCY = 0.0002


class Elsewhere(MemoryBackend):
    """A store whose clock is ahead of this machine's."""

    def __init__(self) -> None:
        self.its_clock = VirtualClock()
        self.its_clock.offset = AHEAD
        super().__init__(self.its_clock)
        self.asked_at: list[float] = []
        self.away = False
        self.latency = LATENCY

    async def arun(self, verb: Verb[object]) -> object:
        self.asked_at.append(self.its_clock.boot())
        await asyncio.sleep(self.latency)
        if self.away:
            raise StoreUnavailableError("away")
        answer = await super().arun(verb)
        await asyncio.sleep(self.latency)
        return answer


class Watch:
    """A worker's clock, which knows the store's time to a quarter of a second, and who keeps it."""

    def __init__(self) -> None:
        self.machine = VirtualClock()
        self.store = Elsewhere()
        self.clock = StoreClock(self.machine)
        self.clock.learn(self.machine.boot() - 0.25, self.machine.now() + AHEAD, self.machine.boot())
        self.held = 0
        calls = StoreCalls(self.store, self.machine, Events(), Random(1), timeout=5.0)
        self.keeping = asyncio.ensure_future(Timekeeper(calls, self.clock, lambda: self.held).run())

    @property
    def behind(self) -> float:
        return (self.store.its_clock.now() - self.clock.now()).total_seconds()


def play(scenario: Callable[[Watch], Awaitable[None]]) -> None:
    async def run() -> None:
        watch = Watch()
        await scenario(watch)
        watch.keeping.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_with_nothing_to_wait_for_nobody_asks() -> None:
    async def scenario(watch: Watch) -> None:
        await asyncio.sleep(100)
        assert watch.store.asked_at == []

    play(scenario)


def test_a_job_that_is_held_has_the_time_known_soon() -> None:
    async def scenario(watch: Watch) -> None:
        await asyncio.sleep(10)
        watch.held = 1
        await asyncio.sleep(1)
        assert len(watch.store.asked_at) == 1
        assert 0 <= watch.behind <= VAGUE
        assert watch.clock.vagueness == pytest.approx(2 * LATENCY, abs=LATENCY)

    play(scenario)


def test_what_is_known_well_is_not_asked_for_again() -> None:
    async def scenario(watch: Watch) -> None:
        watch.held = 1
        await asyncio.sleep(60)
        assert len(watch.store.asked_at) == 1

    play(scenario)


def test_a_store_that_is_away_is_asked_again_later() -> None:
    async def scenario(watch: Watch) -> None:
        watch.held = 1
        watch.store.away = True
        await asyncio.sleep(30)
        assert len(watch.store.asked_at) == pytest.approx(6, abs=1)
        watch.store.away = False
        await asyncio.sleep(ASK_EVERY + 1)
        assert watch.clock.vagueness <= VAGUE

    play(scenario)


def test_after_a_slow_answer_another_is_asked_for_soon() -> None:
    """But less and less often where none is quick: the way is long then."""

    async def scenario(watch: Watch) -> None:
        watch.held = 1
        watch.store.latency = 0.01
        await asyncio.sleep(1)
        watch.store.latency = LATENCY
        await asyncio.sleep(2)
        assert watch.clock.vagueness <= VAGUE
        watch.clock.learn(watch.machine.boot(), watch.machine.now(), watch.machine.boot() + 1)  # it was set
        watch.store.latency = 0.01
        watch.store.asked_at.clear()
        await asyncio.sleep(120)
        assert len(watch.store.asked_at) == pytest.approx(15, abs=2)

    play(scenario)


def test_where_the_clock_is_the_same_there_is_nothing_to_ask() -> None:
    async def scenario(watch: Watch) -> None:
        same = StoreClock(watch.machine, same=True)
        same.learn(0.0, watch.machine.now(), 100.0)
        assert same.vagueness == 0

    play(scenario)
