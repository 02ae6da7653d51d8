"""A flag that is set once, and that threads and coroutines wait for.

It is a `threading.Event` that coroutines can await, too. A signal handler that raises in a waiting thread can leave
the lock of Python's events and futures taken for ever. Here it leaves none: `set` never hangs.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Latch:
    """A flag that is set once."""

    def __init__(self) -> None:
        self.is_set = False
        self._wakes: set[Callable[[], object]] = set()

    def set(self) -> None:
        """Set it and wake all who wait, from any thread. A call that was interrupted may be repeated."""
        self.is_set = True
        for wake in list(self._wakes):
            with suppress(RuntimeError):  # its event loop is closed: nobody waits there any more
                wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Block this thread until it is set, for so many seconds at most; return whether it is set."""
        if not self.is_set:
            woken = SimpleQueue[None]()
            wake = partial(woken.put, None)
            self._wakes.add(wake)
            try:
                if not self.is_set:  # asked again, as it may have been set just before
                    with suppress(Empty):
                        woken.get(timeout=None if seconds is None else max(0, min(seconds, threading.TIMEOUT_MAX)))
            finally:
                self._wakes.discard(wake)
        return self.is_set

    async def await_(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - a fifth of what it takes to import us, and here it is loaded already

        if not self.is_set:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()
            wake = partial(loop.call_soon_threadsafe, _wake, woken)
            self._wakes.add(wake)
            try:
                if not self.is_set:
                    await asyncio.wait([woken], timeout=seconds)
            finally:
                self._wakes.discard(wake)
        return self.is_set


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
