"""Runs handlers: coroutines on the event loop, plain functions in threads of our own pool, within middleware.

A pool of our own, because a future per call and a wake-up of the event loop per return are most of what a short
function costs: returns are gathered, and one wake-up delivers all of them.
"""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import msgspec

from standfast.context import CallNext, Context, Middleware
from standfast.errors import LostClaimError
from standfast.model.clock import Clock
from standfast.model.job import Ending
from standfast.model.outcomes import Interrupted, Outcome, Success, Suspended, meant_by
from standfast.worker.completer import Judge
from standfast.worker.control import Control, StopReason, stack_of
from standfast.worker.loops import users_line


class Returned(msgspec.Struct, frozen=True):
    """What a handler in a thread came to: its value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class ThreadExecutor:
    """A bounded pool of threads that knows which one runs what. Made and used inside a running event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._returned: deque[ThreadCall] = deque()
        self._delivering = False
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def submit(self, handler: Callable[[], Any]) -> "ThreadCall":
        """Run the handler in a free thread; there is one, or one more is started, or the handler waits."""
        call = ThreadCall(self._loop, handler)
        self._busy += 1
        if len(self._threads) < min(self._busy, self._size):
            name = f"standfast-job-{len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        self._calls.put(call)
        return call

    def abandon(self) -> None:
        """Let running threads be; take no more."""
        for _ in self._threads:
            self._calls.put(None)

    def outlive(self) -> None:
        """Take no more, and block until no thread runs: after the loop has ended, whatever ended it."""
        self.abandon()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            self._returned.append(call)
            if not self._delivering:
                self._delivering = True
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._delivering = False  # before looking: who returns after the last look asks for another delivery
        while self._returned:
            self._busy -= 1
            self._returned.popleft().deliver()


class ThreadCall:
    """One handler in a thread."""

    __slots__ = ("_context", "_handler", "_returned", "_thread_id", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: Callable[[], Any]) -> None:
        self._handler = handler
        self._context = contextvars.copy_context()
        self._thread_id = 0
        self._returned = Returned()
        self.done: asyncio.Future[Returned] = loop.create_future()

    def run(self) -> None:
        """Run the handler, in its thread. What it raises is a value: a future cannot carry every exception."""
        self._thread_id = threading.get_ident()
        try:
            self._returned = Returned(self._context.run(self._handler))
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this attempt, whatever it is
            self._returned = Returned(error=error)

    def deliver(self) -> None:
        """Say, on the event loop, that the handler has returned."""
        if not self.done.done():
            self.done.set_result(self._returned)

    def stack(self) -> str:
        """Return where the handler is now."""
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the documented way
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


def wrap(middleware: Sequence[Middleware], context: Context, handler: CallNext) -> CallNext:
    """Return the handler with the middleware around it, the first one outermost."""
    for around in reversed(middleware):
        handler = partial(around, context, handler)
    return handler


class Threaded:
    """A plain function as something that middleware can await.

    A thread cannot be cancelled, so neither is who waits for it: while the function runs it is only told to stop,
    and the timeout takes effect when it has returned, unless it has succeeded all the same (`succeeded_late`).
    """

    def __init__(
        self,
        control: Control,
        threads: ThreadExecutor,
        handler: Callable[[], Any],
        succeeded_late: Callable[[Returned], bool],
    ) -> None:
        self._control = control
        self._threads = threads
        self._handler = handler
        self._succeeded_late = succeeded_late
        self._call: ThreadCall | None = None
        self.limit: asyncio.Timeout

    @property
    def running(self) -> bool:
        """Whether the function runs now."""
        return self._call is not None

    def stack(self) -> str:
        """Return where the function is now."""
        return "" if self._call is None else self._call.stack()

    async def __call__(self) -> Any:
        """Run the function in a thread; return or raise what it does."""
        loop, ends_at = asyncio.get_running_loop(), self.limit.when()
        self.limit.reschedule(None)
        overdue = None if ends_at is None else loop.call_at(ends_at, self._control.tell, StopReason.TIMEOUT)
        self._control.cancellable = False
        self._call = self._threads.submit(self._handler)
        cancelled = await _outlasted(self._call.done)
        returned, self._call = self._call.done.result(), None
        self._control.cancellable = True
        if overdue is not None:
            overdue.cancel()
        timed_out = ends_at is not None and loop.time() >= ends_at
        if not (timed_out and self._succeeded_late(returned)):
            self.limit.reschedule(ends_at)
            if timed_out:
                await loop.create_future()  # until the timeout, now due, takes effect
        if cancelled is not None:
            raise cancelled
        if returned.error is not None:
            raise returned.error
        return returned.value


async def _outlasted(done: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait for the thread whatever happens; return the cancellation, by the middleware, that came meanwhile."""
    cancelled = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


# A coroutine is cancelled at its timeout, a function in a thread is told; one that ignores this for long is stuck,
# and its process is replaced. A function that succeeds after its timeout has succeeded.

STUCK_AFTER = 10.0  # seconds that a handler is given to heed its timeout before its process is replaced
CannotStop = Callable[[Control, str, str], None]
"""Hears of a handler that ignores its timeout: in a sentence, and where it is as a stack."""


class Running(msgspec.Struct):
    """The handler of one attempt. `inside` is what runs in a thread within middleware, which is on the loop."""

    control: Control
    judge: Judge
    clock: Clock
    threads: ThreadExecutor
    stuck: CannotStop
    handler: Callable[[], Any]
    inside: Threaded | None = None

    async def on_loop(self) -> Ending | None:
        """Run a coroutine; return how its attempt ends, None where the claim is lost."""
        control, timeout = self.control, self.judge.policy.timeout
        control.cancellable = True
        watch = None if timeout is None else self._watch(timeout)
        limit: asyncio.Timeout | None = None
        try:
            if timeout is None and self.inside is None:  # the hot path: a limit costs, even without an end
                value = await self.handler()
            else:
                async with asyncio.timeout(timeout) as limit:
                    if self.inside is not None:
                        self.inside.limit = limit
                    value = await self.handler()
        except asyncio.CancelledError as error:
            if control.why is None:
                return self.judge.raised(error)
            if control.attempt is not None:
                control.attempt.uncancel()
            return self._stopped()
        except TimeoutError as error:
            timed_out = limit is not None and limit.expired()
            return self.judge.timed_out() if timed_out else self.judge.raised(error)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt only
            return self._raised(error)
        finally:
            control.cancellable = False
            if watch is not None:
                watch.cancel()
            control.outlived_by_thread = self.inside is not None and self.inside.running
        return self.judge.returned(value)

    async def in_thread(self) -> Ending | None:
        """Run a plain function; return how its attempt ends, None where the claim is lost."""
        call = self.threads.submit(self.handler)
        try:
            timed_out = await self._outlived(call)
            returned = await call.done
        except asyncio.CancelledError:  # by code of the user's: a worker cancels no thread
            self.control.outlived_by_thread = True
            raise
        if timed_out and not self.succeeded_late(returned):
            return self.judge.timed_out()
        if returned.error is not None:
            return self._raised(returned.error)
        return self.judge.returned(returned.value)

    def succeeded_late(self, returned: Returned) -> bool:
        """Tell whether a function has done its work after its timeout: its claim is valid, so that it counts.

        One that has seen that it was to end may have stopped halfway: then it has to say that it succeeded.
        """
        if returned.error is not None or isinstance(returned.value, Outcome):
            succeeded = isinstance(returned.error or returned.value, Success)
        else:
            succeeded = not self.control.knew
        if not succeeded:
            return False
        Context(self.control.claim, self.control).log.warning(
            "job %s succeeded, which counts, and ran longer than its timeout of %g s: give it more time, or let it"
            " look at ctx.cancelled",
            self.control.claim.job_id,
            self.judge.policy.timeout,
        )
        return True

    def within(
        self, middleware: Sequence[Middleware], context: Context, *, is_async: bool
    ) -> Awaitable[Ending | None]:
        """Run the handler, coroutine or not, within middleware."""
        if not is_async:
            self.handler = self.inside = Threaded(self.control, self.threads, self.handler, self.succeeded_late)
        self.handler = wrap(middleware, context, self.handler)
        return self.on_loop()

    def _watch(self, timeout: float) -> asyncio.TimerHandle:
        """See to it that a coroutine which swallows its cancellation does not run for ever."""

        def ignored() -> None:
            in_thread = self.inside.stack() if self.inside is not None else ""
            self._ignored(timeout, in_thread or stack_of(self.control.attempt))

        return asyncio.get_running_loop().call_later(timeout + STUCK_AFTER, ignored)

    async def _outlived(self, call: ThreadCall) -> bool:
        """Wait for the thread; return whether it ran past its timeout, after telling it to stop."""
        timeout = self.judge.policy.timeout
        if timeout is None:
            await call.done
            return False
        done, _ = await asyncio.wait([call.done], timeout=timeout)
        if done:
            return False
        self.control.tell(StopReason.TIMEOUT)
        done, _ = await asyncio.wait([call.done], timeout=STUCK_AFTER)
        if not done:
            self._ignored(timeout, call.stack())
        return True

    def _ignored(self, timeout: float, where: str) -> None:
        line = users_line(where)
        self.stuck(self.control, f"it ignores its timeout of {timeout:g} s{f', at {line}' if line else ''}", where)

    def _raised(self, error: BaseException) -> Ending | None:
        """Judge what was raised; a handler that ends because it was told to is not to blame."""
        if (suspended := meant_by(error, Suspended)) is not None:
            return self.judge.suspended(suspended)
        told = isinstance(error, Interrupted | LostClaimError)
        return self._stopped() if told else self.judge.raised(error)

    def _stopped(self) -> Ending | None:
        return ending_of_stopped(self.control, self.judge, self.clock)


def ending_of_stopped(control: Control, judge: Judge, clock: Clock) -> Ending | None:
    """Return how an attempt ends that was told to stop, and did or was made to; None where its claim is lost."""
    match control.why:
        case StopReason.LOST:
            return None
        case StopReason.TIMEOUT:
            return judge.timed_out()
        case StopReason.CANCEL:
            return judge.cancelled()
        case StopReason.WINDOW if control.opens_at is not None:
            return judge.released_for(control.opens_at - clock.now())
        case _:
            return judge.released()
