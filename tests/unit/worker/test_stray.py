"""Exceptions that nobody could hear: folded where they are raised, chained to other hooks, harmless themselves."""

import asyncio
import functools
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from standfast.model.clock import SystemClock
from standfast.model.incidents import Trouble
from standfast.testing.clock import FakeClock
from standfast.worker.excepthooks import install_excepthooks
from standfast.worker.messages import Noticed
from standfast.worker.unhandled import EVERY, FORGET_AFTER, MOST_AT_ONCE, MOST_KINDS, ErrorGroups, UnhandledErrors


def noticed(name: str) -> Noticed:
    return Noticed(Trouble.EXCEPTION, name, name)


class TestPiles:
    """Pure, by a clock that the test owns."""

    def test_the_first_is_told_at_once_and_the_others_by_their_number(self) -> None:
        """Once per period, and never two of a kind apart."""
        clock = FakeClock()
        piles = ErrorGroups(clock.boot)
        piles.begin("a", noticed("a"))
        assert [pile.count for pile in piles.due()] == [1]
        for _ in range(500):
            pile = piles.find("a")
            assert pile is not None
            pile.count += 1
        assert piles.due() == []
        assert piles.next_in == pytest.approx(EVERY)
        clock.advance(EVERY)
        assert [pile.count for pile in piles.due()] == [500]
        assert piles.next_in is None

    def test_all_kinds_together_are_told_at_a_bounded_rate_and_none_is_lost(self) -> None:
        """What is too much now is told later."""
        clock = FakeClock()
        piles = ErrorGroups(clock.boot)
        for number in range(3 * MOST_AT_ONCE):
            piles.begin(number, noticed(str(number)))
        told = []
        for _ in range(3):
            told.append([pile.noticed.summary for pile in piles.due()])
            clock.advance(EVERY)
        assert [len(each) for each in told] == [MOST_AT_ONCE] * 3
        assert len({name for each in told for name in each}) == 3 * MOST_AT_ONCE

    def test_a_kind_that_was_quiet_for_long_is_forgotten(self) -> None:
        """So that others have room."""
        clock = FakeClock()
        piles = ErrorGroups(clock.boot)
        for number in range(MOST_KINDS):
            piles.begin(number, noticed(str(number)))
        assert piles.full
        while piles.due():
            clock.advance(EVERY)
        clock.advance(FORGET_AFTER)
        piles.due()
        assert not piles.full


class Hearing:
    """Hooks that are set, and what is told."""

    def __init__(self) -> None:
        self.sent: list[Noticed] = []
        self.strays = UnhandledErrors(self.sent.append, SystemClock(), list)

    async def told(self) -> Noticed:
        async with asyncio.timeout(10):
            while not self.sent:  # noqa: ASYNC110 - it comes from a thread
                await asyncio.sleep(0.01)
        return self.sent[0]


@contextmanager
def hooked() -> Iterator[Hearing]:
    hearing = Hearing()
    end = install_excepthooks(hearing.strays.heard, asyncio.get_running_loop())
    try:
        yield hearing
    finally:
        end()


def run_in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **more: Any) -> None:
        asyncio.run(test(*args, **more))

    return run


@pytest.fixture(autouse=True)
def hooks_of_python(monkeypatch):
    """Have Python's own hooks in place, not those of the test runner."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


def fail() -> None:
    raise ValueError("as planned")


@on_a_loop
async def test_hooks_are_put_back_and_former_ones_are_called(monkeypatch) -> None:
    """A hook of somebody else's hears what ours hears; at the end everything is as it was."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda args: heard.append(args.exc_value))
    before = (
        sys.excepthook,
        threading.excepthook,
        sys.unraisablehook,
        warnings.showwarning,
        threading.Thread.start,
    )
    with hooked() as hearing:
        run_in_thread(fail)
        assert (await hearing.told()).summary.startswith("ValueError: as planned in thread ")
    assert [str(error) for error in heard] == ["as planned"]
    after = (sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning, threading.Thread.start)
    assert after == before
    assert asyncio.get_running_loop().get_exception_handler() is None


@on_a_loop
async def test_what_is_set_later_wins(monkeypatch) -> None:
    """We do not fight for a hook, nor take away another one at the end."""
    heard = []

    def mine(args: threading.ExceptHookArgs) -> None:
        heard.append(args.exc_value)

    with hooked() as hearing:
        monkeypatch.setattr(threading, "excepthook", mine)
        run_in_thread(fail)
    assert len(heard) == 1
    assert hearing.sent == []
    assert threading.excepthook is mine


@on_a_loop
async def test_a_thread_may_end_itself(capfd) -> None:
    """SystemExit in a thread is no trouble."""
    with hooked() as hearing:
        run_in_thread(sys.exit)
        await asyncio.sleep(0.05)
    assert hearing.sent == []
    assert capfd.readouterr().err == ""


@on_a_loop
async def test_an_exception_in_the_hook_does_not_come_back(capfd) -> None:
    """Nothing that goes wrong while one is described is described in its turn."""

    class Fragile:
        def __del__(self) -> None:
            raise ValueError("in the middle of it")

    class Wicked(Exception):  # noqa: N818 - it is
        def __str__(self) -> str:
            Fragile()
            raise KeyError("no words")

    def fail_wickedly() -> None:
        raise Wicked

    with hooked() as hearing:
        run_in_thread(fail_wickedly)
        told = await hearing.told()
        await asyncio.sleep(0.05)
    assert "Wicked" in told.summary
    assert len(hearing.sent) == 1
    assert "in the middle of it" in capfd.readouterr().err  # by Python itself: it is not swallowed


@on_a_loop
async def test_a_coroutine_that_was_never_awaited_is_told_as_the_filters_say() -> None:
    """Shown as before, and told; where a filter ignores it, neither."""

    async def never() -> None: ...

    for action, times in (("always", 1), ("ignore", 0)):
        shown: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter(action)  # type: ignore[arg-type]
            warnings.showwarning = lambda message, *_, shown=shown: shown.append(str(message))  # type: ignore[misc]
            with hooked() as hearing:
                never()
                await asyncio.sleep(0.05)
        assert len(shown) == len(hearing.sent) == times
        assert all("never' was never awaited" in each.summary for each in hearing.sent)


@on_a_loop
async def test_so_many_kinds_are_told_apart_and_the_rest_is_counted() -> None:
    """None is missing from the numbers."""
    hearing = Hearing()
    for number in range(2 * MOST_KINDS):
        hearing.strays.heard(ValueError(), lambda: {"where": "here"}, lambda: None, lines=(("a.py", number),))
    hearing.strays.tell_all()
    assert len(hearing.sent) == MOST_KINDS + 1
    assert sum(each.count for each in hearing.sent) == 2 * MOST_KINDS


@on_a_loop
async def test_a_process_that_was_forked_says_it_itself(capfd) -> None:
    """It has our hooks and no event loop: what it raises is printed as Python does."""
    with hooked() as hearing:
        if (child := os.fork()) == 0:
            run_in_thread(fail)
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 - it is soon over
        await asyncio.sleep(0.05)
    assert "ValueError: as planned" in capfd.readouterr().err
    assert hearing.sent == []


def test_when_the_loop_is_gone_it_is_said_on_stderr() -> None:
    """Once; and what cannot be told is printed as Python does."""
    code = """
import asyncio, threading
from standfast.worker.excepthooks import install_excepthooks
from standfast.model.clock import SystemClock
from standfast.worker.unhandled import UnhandledErrors

async def hook():
    install_excepthooks(UnhandledErrors(print, SystemClock(), list).heard, asyncio.get_running_loop())

asyncio.run(hook())
for _ in range(3):
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    assert done.stderr.count("the event loop is gone") == 1
    assert done.stderr.count("ZeroDivisionError: division by zero") == 3
