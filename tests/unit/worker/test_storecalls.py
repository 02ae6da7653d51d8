"""A worker's way to its store: that it is away is said once, and once that it is back."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from simulator.loop import VirtualLoop
from simulator.world import VirtualClock
from standfast.errors import StoreError, StoreUnavailableError
from standfast.events import Event, Events, StoreAway, StoreBack
from standfast.model.clock import SystemClock
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import Verb
from standfast.worker.storecalls import UNTRIED, StoreCalls


class Scripted(MemoryBackend):
    """A store whose answers a test gives, each when it likes."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.waiting: list[asyncio.Future[None]] = []

    async def arun(self, verb: Verb[object]) -> object:
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn
        return await super().arun(verb)


class Scene:
    """Calls on such a store, and what was said about it."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.store = Scripted(clock)
        self.heard: list[Event] = []
        events = Events()
        events.subscribe(self.heard.append)
        self.calls = StoreCalls(self.store, clock, events, Random(1), timeout=60.0)

    async def ask(self, verb: Verb[Any] | None = None) -> "asyncio.Task[object]":
        """Send a call, a write if none is given; it waits for its answer."""
        call = asyncio.ensure_future(self.calls.once(verb or self.calls.verbs.pause("mail")))
        await asyncio.sleep(1)
        return call

    async def answer(self, call: "asyncio.Task[object]", number: int, error: StoreError | None = None) -> None:
        """Answer the call of this number, or let it fail."""
        turn = self.store.waiting[number]
        if error is None:
            turn.set_result(None)
            await call
        else:
            turn.set_exception(error)
            with pytest.raises(type(error)):
                await call
        await asyncio.sleep(1)

    @property
    def said(self) -> list[type[Event]]:
        return [type(event) for event in self.heard]


def play(scenario: Coroutine[Any, Any, list[type[Event]]]) -> list[type[Event]]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)


async def _some_fail_late() -> list[type[Event]]:
    scene, away = Scene(), StoreUnavailableError("away")
    calls = [await scene.ask() for _ in range(4)]
    await scene.answer(calls[0], 0, away)
    await scene.answer(calls[1], 1, away)
    await scene.answer(calls[2], 2)
    await scene.answer(calls[3], 3, away)
    return scene.said


def test_what_was_asked_in_an_outage_and_fails_after_it_is_no_other_outage() -> None:
    """Many calls are under way when a server goes. Those that hear of it last do not begin the story anew."""
    assert play(_some_fail_late()) == [StoreAway, StoreBack]


async def _one_outage_after_the_other() -> list[type[Event]]:
    scene, away = Scene(), StoreUnavailableError("away")
    for number in range(4):
        await scene.answer(await scene.ask(), number, away if number % 2 == 0 else None)
    return scene.said


def test_each_outage_is_told() -> None:
    assert play(_one_outage_after_the_other()) == [StoreAway, StoreBack] * 2


async def _only_a_read_fails() -> list[type[Event]]:
    scene, away = Scene(), StoreUnavailableError("away")
    await scene.answer(await scene.ask(count_states(scene.calls.verbs)), 0, away)
    assert scene.calls.unanswered_for > 0
    await scene.answer(await scene.ask(), 1)
    assert scene.calls.unanswered_for == 0
    return scene.said


def test_an_answered_write_ends_the_outage_that_a_read_noticed() -> None:
    """A worker that only writes from then on does not take the store to be away for ever, or to hang."""
    assert play(_only_a_read_fails()) == [StoreAway, StoreBack]


async def _only_one_write_fails() -> list[type[Event]]:
    scene, away = Scene(), StoreUnavailableError("away")
    await scene.answer(await scene.ask(), 0, away)
    await scene.answer(await scene.ask(scene.calls.verbs.beat([])), 1)
    assert scene.said == [StoreAway]
    await asyncio.sleep(UNTRIED)
    await scene.answer(await scene.ask(scene.calls.verbs.beat([])), 2)
    return scene.said


def test_a_write_that_failed_and_is_not_repeated_does_not_keep_the_store_away() -> None:
    assert play(_only_one_write_fails()) == [StoreAway, StoreBack]


def test_an_answer_that_came_while_the_loop_was_blocked_counts() -> None:
    """A handler that hogs the loop for longer than the timeout does not make the store seem away."""
    heard: list[Event] = []
    answered = threading.Event()

    class InAThread(MemoryBackend):
        async def arun(self, verb: Verb[object]) -> object:
            await asyncio.to_thread(time.sleep, 0.01)
            answered.set()
            return await super().arun(verb)

    async def scenario() -> None:
        clock, events = SystemClock(), Events()
        events.subscribe(heard.append)
        calls = StoreCalls(InAThread(clock), clock, events, Random(1), timeout=0.2)
        call = asyncio.ensure_future(calls.once(calls.verbs.pause("mail")))
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - this is the handler
        assert not answered.is_set()
        await call

    asyncio.run(scenario())
    assert heard == []


def test_a_call_without_an_answer_is_given_up_in_time() -> None:
    """The limit holds, for a loop that is in time as for one that was blocked."""

    async def scenario() -> None:
        scene = Scene()
        call = await scene.ask()
        with pytest.raises(StoreUnavailableError, match="within 60 s"):
            await call
        assert asyncio.get_running_loop().time() == pytest.approx(60)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
