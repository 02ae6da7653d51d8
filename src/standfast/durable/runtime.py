"""What steps, waits, cursors and files need of their attempt, and how they wait: in a thread or on the event loop."""

import asyncio
import inspect
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from contextvars import ContextVar, copy_context
from datetime import datetime
from random import Random
from typing import Any, Protocol, TypeVar

from standfast.model.job import Claim
from standfast.model.memos import Memo, Save
from standfast.model.outcomes import Interrupted
from standfast.model.secrets import Scrub
from standfast.model.tracing import AttemptTrace


class RunningStep:
    """A step that runs, and by when it should be over, if it has a timeout."""

    __slots__ = ("_ends_at", "name", "timeout")

    def __init__(self, name: str, timeout: float | None) -> None:
        self.name = name
        self.timeout = timeout
        self._ends_at = None if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        """How many seconds it has yet."""
        return math.inf if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    @property
    def overdue(self) -> bool:
        """Whether its time is over."""
        return self._ends_at is not None and time.monotonic() >= self._ends_at


current_attempt: ContextVar[Any] = ContextVar("attempt_here", default=None)
"""The attempt that the present code belongs to (`worker/control.py`); None where it belongs to none."""

current_step: ContextVar[RunningStep | None] = ContextVar("standfast_step", default=None)
"""Coroutines and threads of a step have it; a bare `threading.Thread` that a step starts has not."""


LastWords = Callable[[], Sequence[Memo]]
"""Tells what is left to write down when an attempt ends."""


class Notebook(Protocol):
    """The memos of one job, under the claim of this attempt, in whatever process it runs.

    It answers by futures of `concurrent.futures`: a handler in a thread waits for them, and a coroutine awaits them.
    Every member may be used from any thread.
    """

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Return the memos by name as the store has them now."""

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down soon, together with what others write; never blocks.

        What is written under a name before an earlier writing of it has left takes its place. The future is done
        once the store has it. It raises LostClaimError where the job is another's by now. Without `hurry` it may
        wait for a moment, so that many writings become one.
        """

    def at_end(self, last_words: LastWords) -> None:
        """Ask this, too, when the attempt ends, however that comes: what it tells is written before the ending."""


class OwnNotebook(Notebook, Protocol):
    """A notebook as its process has it in hand when the attempt ends."""

    def take_last_words(self) -> None:
        """Write what is left, by those who have asked to be asked."""

    def unwritten(self) -> Save | None:
        """Return all that the store is not known to have, to be written with the end of the claim."""

    def written(self) -> None:
        """Take note that the store has it all."""


def pending() -> "Future[None]":
    """Return the future of a writing. Who waits for it may give up; nobody can cancel it for the others."""
    answer: Future[None] = Future()
    answer.set_running_or_notify_cancel()
    return answer


T = TypeVar("T")

LOOK_EVERY = 0.25
"""Seconds between two looks at whether the attempt is to end."""

WARN_AFTER = 10.0
"""Seconds after which a handler that waits for the store says why it stands still."""


class AttemptHost(Protocol):
    """What checkpoints need of the attempt that they belong to."""

    @property
    def log(self) -> "logging.LoggerAdapter[Any]":
        """Where to say from where the attempt goes on."""

    def raise_if_cancelled(self) -> None:
        """End the attempt here if it is to end."""


class Waiting:
    """Waits for answers of the notebook on behalf of one attempt."""

    def __init__(self, host: AttemptHost, port: "Port") -> None:
        self.host = host
        self.port = port

    def answer(self, future: "Future[T]") -> T:
        """Block this thread until there is an answer."""
        began = time.monotonic()
        warned = False
        while True:
            try:
                return future.result(LOOK_EVERY)
            except TimeoutError:
                if future.done():
                    return future.result()
            warned = self._look(began, warned=warned)

    async def await_answer(self, future: "Future[T]") -> T:
        """Let the event loop go on until there is an answer."""
        began = time.monotonic()
        warned = False
        waiting = awaitable(future)
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOK_EVERY)
            if not waiting.done():
                warned = self._look(began, warned=warned)
        return waiting.result()

    def _look(self, began: float, *, warned: bool) -> bool:
        self.host.raise_if_cancelled()
        if not warned and time.monotonic() - began > WARN_AFTER:
            self.host.log.warning(
                "the store has not answered for %g s, and this handler waits for it: it is away, or the handler has"
                " a transaction open in which it has written to the store's own database; commit that first",
                WARN_AFTER,
            )
            return True
        return warned


def awaitable(future: "Future[T]") -> "asyncio.Future[T]":
    """Return a future of this loop that follows another; who has given up need not hear what it raises."""
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiting


Call = Callable[[], Any]
"""What a step does."""


class BlockingRunner:
    """Never lets go of the thread, so that a coroutine that goes this way is done in one go."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    async def answer(self, future: "Future[T]") -> T:
        """Wait for what the notebook answers."""
        return self._waiting.answer(future)

    async def nap(self, seconds: float) -> None:
        """Do nothing for a moment."""
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop is waiting

    async def run(self, here: RunningStep, call: Call) -> Any:
        """Run what a step does; it is not interrupted, but told."""
        return _inside(here, call)

    @asynccontextmanager
    async def within(self, transaction: "Saving") -> AsyncIterator[None]:
        """Begin a transaction and end it."""
        with transaction:
            yield

    def settle(self) -> None:
        """Nothing was put off: nobody can cancel a thread."""


class AsyncRunner:
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

    async def run(self, here: RunningStep, call: Call) -> Any:
        """Run what a step does: a coroutine here, and a plain function in a thread, to its end."""
        if inspect.iscoroutinefunction(getattr(call, "func", call)):
            return await _awaited(here, call)
        value = await self._in_thread(here, call)
        return await _awaited(here, lambda: value) if inspect.isawaitable(value) else value

    @asynccontextmanager
    async def within(self, transaction: "Saving") -> AsyncIterator[None]:
        """Begin a transaction and end it."""
        async with transaction:
            yield

    def settle(self) -> None:
        """Raise the cancellation that came while a thread ran."""
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            raise cancelled

    async def _in_thread(self, here: RunningStep, call: Call) -> Any:
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


StepRunner = BlockingRunner | AsyncRunner
"""One call of the handler, as it is carried out."""


async def _awaited(here: RunningStep, call: Call) -> Any:
    before = current_step.get()
    try:
        current_step.set(here)
        async with asyncio.timeout(here.timeout) as limit:
            return await call()
    except TimeoutError as error:
        if limit.expired():
            raise _timed_out(here) from error
        raise
    finally:
        current_step.set(before)


def _inside(here: RunningStep, call: Call) -> Any:
    before = current_step.get()
    try:
        current_step.set(here)
        return call()
    except (Exception, Interrupted) as error:
        if here.overdue:
            raise _timed_out(here) from error
        raise
    finally:
        current_step.set(before)


def _timed_out(here: RunningStep) -> TimeoutError:
    return TimeoutError(f"step {here.name!r} ran longer than its timeout of {here.timeout:g} s")


class Saving(AbstractContextManager[Any], AbstractAsyncContextManager[Any], Protocol):
    """A transaction of the handler's own that writes a memo with its rows: the end of the block commits both."""

    memo: Memo
    """What to write; it is set in the block."""


class Port(Protocol):
    """The live side of an attempt. Every member may be used from any thread."""

    @property
    def claim(self) -> Claim:
        """The claim of the attempt."""

    @property
    def cancelled(self) -> bool:
        """True once the handler should end."""

    @property
    def notebook(self) -> Notebook:
        """The memos of the job."""

    @property
    def takes_pauses(self) -> bool:
        """Whether the waits between two tries of a step are kept; a test's clock stands still."""

    @property
    def random(self) -> Random:
        """The source of jitter."""

    @property
    def trace(self) -> AttemptTrace | None:
        """The span of the attempt, if it is traced."""

    @property
    def scrub(self) -> Scrub:
        """What keeps the secrets of the job out of texts."""

    def now(self) -> datetime:
        """Return the store's time."""

    def saving(self, connection: Any) -> Saving:
        """Return a transaction on a connection of the handler's own, not yet begun."""
