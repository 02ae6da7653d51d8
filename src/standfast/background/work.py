"""One piece of work in this process: how it is run, and what is made of its end."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from standfast.awaiting import must_not_block
from standfast.background.calling import Call
from standfast.background.handle import Background, BackgroundState
from standfast.core.interruption import Interrupted
from standfast.errors import BackgroundCancelledError, BackgroundError, ConfigurationError, ResultTimeoutError
from standfast.ids import new_job_id
from standfast.latch import Latch
from standfast.life import Life
from standfast.policy.reading import is_number

R = TypeVar("R")

work_here: ContextVar["Work[Any] | None"] = ContextVar("standfast_background", default=None)
"""The work in which the code that asks runs."""


class WorkLife(Life):
    """How long a piece of work may go on: until it is cancelled or its app is closed."""

    def __init__(self) -> None:
        self._end = Latch()

    @property
    def cancelled(self) -> bool:
        """True once the work should end: it was cancelled, or its app is being closed."""
        return self._end.is_set

    def raise_if_cancelled(self) -> None:
        """End the work here if it should end."""
        if self._end.is_set:
            raise Interrupted

    def end(self) -> None:
        """Let the work know that it should end."""
        self._end.set()

    def _nap(self, seconds: float) -> None:
        self._end.wait(seconds)

    async def _anap(self, seconds: float) -> None:
        await self._end.await_(seconds)


class Outcome(msgspec.Struct, frozen=True):
    """What became of a piece of work."""

    state: BackgroundState
    value: Any = None
    error: BaseException | None = None


class Work(Background[R]):
    """A piece of work. `loop` is where its coroutine runs; None of a plain function, which runs in a thread.

    `settle` is told what became of it; what it is told first counts.
    """

    def __init__(
        self,
        call: Call,
        loop: asyncio.AbstractEventLoop | None,
        settle: "Callable[[Work[Any], Outcome], None]",
    ) -> None:
        self.id = new_job_id()
        self.name = call.name
        self.call = call
        self.loop = loop
        self.life = WorkLife()
        self.context: Context = copy_context()
        self.outcome: Outcome | None = None
        self._settle = settle
        self._task: asyncio.Task[None] | None = None
        self._over = Latch()

    # -- what its handle tells -----------------------------------------------------------------------------------

    @property
    def state(self) -> BackgroundState:
        """Where it is now."""
        if self.outcome is not None:
            return self.outcome.state
        return BackgroundState.WAITING if self.started_at is None else BackgroundState.RUNNING

    def cancel(self) -> None:
        """Tell it to end: a coroutine is cancelled, a function in a thread is told; one that waits never begins."""
        self.life.end()
        if self.started_at is None:
            self._settle(self, CANCELLED)
        else:
            self.stop()

    async def acancel(self) -> None:
        """Tell it to end."""
        self.cancel()

    def result(self, timeout: float | None = None) -> R:
        """Wait for it and return what its function returned, or raise what that raised."""
        if not self.ended(timeout):
            raise self._still(timeout)
        return self._read()

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for it as `result` does, without blocking the event loop."""
        if not await self.aended(timeout):
            raise self._still(timeout)
        return self._read()

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for its end for so many seconds at most; return whether it came."""
        _check(timeout)
        if not self._over.is_set:
            must_not_block("to wait for it", "await ….aresult()` or `await ….aended()", BackgroundError)
        return self._over.wait(timeout)

    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for its end as `ended` does, without blocking the event loop."""
        _check(timeout)
        return await self._over.await_(timeout)

    def _read(self) -> R:
        outcome = self.outcome
        assert outcome is not None  # it has ended
        if outcome.state is BackgroundState.CANCELLED:
            raise BackgroundCancelledError(
                f"{self.name} was cancelled{'' if self.started_at else ' before it began'}"
            )
        if outcome.error is not None:
            raise outcome.error
        value: R = outcome.value
        return value

    def _still(self, timeout: float | None) -> ResultTimeoutError:
        return ResultTimeoutError(
            f"{self.name} is still {self.state} after {timeout:g} s; it goes on, ask again later"
        )

    # -- how it is run -------------------------------------------------------------------------------------------

    def begin(self, at: datetime) -> None:
        """Take note that it begins now."""
        self.started_at = at

    def run_here(self) -> Outcome:
        """Run a plain function in this thread, in the context in which it was given."""
        try:
            return self.context.run(self._run_here)
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this work only, whatever it is
            return outcome_of(error)

    def _run_here(self) -> Outcome:
        work_here.set(self)
        self.life.raise_if_cancelled()
        value = self.call.run(self.life)
        if inspect.iscoroutine(value):
            value.close()
            raise TypeError(
                f"{self.name} returned a coroutine, which nobody awaits: give app.background the async def"
            )
        return Outcome(BackgroundState.COMPLETED, value)

    def begin_on_loop(self) -> None:
        """Begin with a coroutine, on its event loop."""
        if self.life.cancelled:
            self._settle(self, CANCELLED)
            return
        assert self.loop is not None
        self._task = self.loop.create_task(self._carry(), name=f"background {self.name}", context=self.context)
        self._task.add_done_callback(self._let_go)

    def _let_go(self, _: "asyncio.Task[None]") -> None:
        """Take note of a coroutine that was cancelled before its first line; any other has said how it ended."""
        self._settle(self, CANCELLED)

    async def _carry(self) -> None:
        work_here.set(self)
        try:
            outcome = Outcome(BackgroundState.COMPLETED, await self.call.run(self.life))
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit) as error:  # of its loop's concern, too
            self._settle(self, outcome_of(error))
            raise
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this work only, whatever it is
            outcome = outcome_of(error)
        self._settle(self, outcome)

    def stop(self) -> None:
        """Cancel it where it is a coroutine, from any thread."""
        if self.loop is not None:
            with suppress(RuntimeError):  # its loop is closed
                self.loop.call_soon_threadsafe(self._stop_on_loop)

    def _stop_on_loop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def tell(self) -> None:
        """Let those know who wait for its end."""
        self._over.set()

    def abandon(self) -> None:
        """Be over in a process that was forked: nothing of it runs here, and no lock of before can be trusted."""
        self.life, self._over = WorkLife(), Latch()
        self.life.end()
        self.outcome = CANCELLED
        self.tell()


CANCELLED = Outcome(BackgroundState.CANCELLED)


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception means that ended some work."""
    if isinstance(error, Interrupted | asyncio.CancelledError | GeneratorExit):
        return CANCELLED
    return Outcome(BackgroundState.FAILED, error=error)


def _check(timeout: object) -> None:
    if not (timeout is None or is_number(timeout)):
        raise ConfigurationError(f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r}")
