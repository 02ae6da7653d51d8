"""How an attempt waits and calls: it blocks its thread, or it awaits. So steps and waits are written once."""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from standfast.core.interruption import Interrupted
from standfast.durable.here import StepHere, step_here
from standfast.durable.waiting import Waiting

T = TypeVar("T")

Call = Callable[[], Any]
"""What a step does."""


class Either(AbstractContextManager[Any], AbstractAsyncContextManager[Any], Protocol):
    """A transaction, for `with` or `async with`."""


class Way(Protocol):
    """One call of the handler, as it is carried out."""

    async def answer(self, future: "Future[T]") -> T:
        """Wait for what the notebook answers."""
        ...

    async def nap(self, seconds: float) -> None:
        """Do nothing for a moment."""
        ...

    async def run(self, here: StepHere, call: Call) -> Any:
        """Run what a step does, in it, and see to its timeout."""
        ...

    def within(self, transaction: Either) -> AbstractAsyncContextManager[None]:
        """Begin a transaction and end it."""
        ...

    def settle(self) -> None:
        """Raise the cancellation that could not take effect before."""
        ...


class Blocking:
    """Never lets go of the thread, so that a coroutine that goes this way is done in one go."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    async def answer(self, future: "Future[T]") -> T:
        """Wait for what the notebook answers."""
        return self._waiting.answer(future)

    async def nap(self, seconds: float) -> None:
        """Do nothing for a moment."""
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop is waiting

    async def run(self, here: StepHere, call: Call) -> Any:
        """Run what a step does; it is not interrupted, but told."""
        return _inside(here, call)

    @asynccontextmanager
    async def within(self, transaction: Either) -> AsyncIterator[None]:
        """Begin a transaction and end it."""
        with transaction:
            yield

    def settle(self) -> None:
        """Nothing was put off: nobody can cancel a thread."""


class Awaiting:
    """Lets the event loop go on meanwhile. One serves one call."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._cancelled: asyncio.CancelledError | None = None

    async def answer(self, future: "Future[T]") -> T:
        """Wait for what the notebook answers."""
        return await self._waiting.await_answer(future)

    async def nap(self, seconds: float) -> None:
        """Let others go on."""
        await asyncio.sleep(seconds)

    async def run(self, here: StepHere, call: Call) -> Any:
        """Run what a step does: a coroutine here, and a plain function in a thread, to its end."""
        if inspect.iscoroutinefunction(getattr(call, "func", call)):
            return await _awaited(here, call)
        value = await self._in_thread(here, call)
        return await _awaited(here, lambda: value) if inspect.isawaitable(value) else value

    @asynccontextmanager
    async def within(self, transaction: Either) -> AsyncIterator[None]:
        """Begin a transaction and end it."""
        async with transaction:
            yield

    def settle(self) -> None:
        """Raise the cancellation that came while a thread ran."""
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            raise cancelled

    async def _in_thread(self, here: StepHere, call: Call) -> Any:
        """Outlast the thread whatever comes: what it has done must not be done again."""
        ended: Future[tuple[Any, BaseException | None]] = Future()

        def work() -> None:
            try:
                ended.set_result((_inside(here, call), None))
            except BaseException as error:  # noqa: BLE001 - it is the step's outcome, whatever it is
                ended.set_result((None, error))

        threading.Thread(target=copy_context().run, args=(work,), name=f"step-{here.name}", daemon=True).start()
        waiting = asyncio.wrap_future(ended)
        while not waiting.done():
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError as error:
                self._cancelled = error
        value, failure = waiting.result()
        if failure is not None:
            self.settle()
            raise failure
        return value


async def _awaited(here: StepHere, call: Call) -> Any:
    before = step_here.get()
    try:
        step_here.set(here)
        async with asyncio.timeout(here.timeout) as limit:
            return await call()
    except TimeoutError as error:
        if limit.expired():
            raise _timed_out(here) from error
        raise
    finally:
        step_here.set(before)


def _inside(here: StepHere, call: Call) -> Any:
    before = step_here.get()
    try:
        step_here.set(here)
        return call()
    except (Exception, Interrupted) as error:
        if here.overdue:
            raise _timed_out(here) from error
        raise
    finally:
        step_here.set(before)


def _timed_out(here: StepHere) -> TimeoutError:
    return TimeoutError(f"step {here.name!r} ran longer than its timeout of {here.timeout:g} s")
