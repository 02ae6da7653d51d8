"""Running a handler, a coroutine on the event loop or a plain function in a thread, and what is made of its end.

runs ─► returns or raises ───────────────────────────► as the judge says
├──► its timeout: cancelled, or told in a thread ──► timed out    (ignored for long: stuck, a new process)
│         └─► a function succeeds after it ────────► succeeded
└──► told to stop, and ends ───────────────────────► cancelled, released, or lost: nothing to say
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.clock import Clock
from standfast.context import Context, Interrupted
from standfast.core.interruption import Suspended, meant_by
from standfast.core.job import Ending
from standfast.core.outcome import Outcome, Success
from standfast.errors import LostClaimError
from standfast.hooks import Middleware
from standfast.worker.around import Threaded, wrap
from standfast.worker.control import Control, StopReason
from standfast.worker.judge import Judge
from standfast.worker.picture import stack_of
from standfast.worker.places import users_line
from standfast.worker.threads import Returned, ThreadCall, ThreadExecutor

STUCK_AFTER = 10.0
"""Seconds that a handler is given to heed its timeout before its process is replaced."""


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
