"""Sleeps that somebody else can end: of a thread, or on an event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial


class Naps:
    """The sleeps of all who wait for one end. Once that has come none of them lasts, nor any later one."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._lock = threading.RLock()  # a signal handler may end a sleep that its own thread is about to begin
        self._wakes: set[Callable[[], object]] = set()

    @property
    def over(self) -> bool:
        """Whether the end has come."""
        return self._ended.is_set()

    def end(self) -> None:
        """End all sleeps, from any thread."""
        self._ended.set()
        with self._lock:
            wakes, self._wakes = self._wakes, set()
        for wake in wakes:
            with suppress(RuntimeError):  # its event loop is closed: nobody sleeps there any more
                wake()

    def nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the end."""
        self._ended.wait(min(seconds, threading.TIMEOUT_MAX))

    async def anap(self, seconds: float) -> None:
        """Let the event loop go on for so long, or until the end."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = partial(loop.call_soon_threadsafe, _wake, woken)
        with self._lock:
            if self._ended.is_set():
                return
            self._wakes.add(wake)
        try:
            await asyncio.wait([woken], timeout=seconds)
        finally:
            with self._lock:
                self._wakes.discard(wake)


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)
