"""Plain functions run in threads of their own pool; they are told to stop, and cannot be made to.

A pool of our own, because a future per call and a wake-up of the event loop per return are most of what a short
function costs: returns are gathered, and one wake-up delivers all of them.
"""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec


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
