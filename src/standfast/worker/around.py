"""Middleware around a handler, which may be a coroutine or a function in a thread."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from standfast.context import Context
from standfast.hooks import CallNext, Middleware
from standfast.worker.control import Control, StopReason
from standfast.worker.threads import Returned, ThreadCall, ThreadExecutor


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
