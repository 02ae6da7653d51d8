"""A bell within one process: rung from any thread, heard in any number of event loops."""

import asyncio
import threading
from contextlib import suppress


class MemoryListener:
    """One ear. The flag stays up until a wait has seen it, so that no ring between two waits is lost."""

    def __init__(self, bell: "MemoryBell") -> None:
        self._bell = bell
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        if not self._rung.is_set():
            try:
                async with asyncio.timeout(timeout):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._rung.wait()
            except TimeoutError:
                return False
        self._rung.clear()
        return True

    def close(self) -> None:
        """Stop listening."""
        self._bell.forget(self)

    def hear(self) -> None:
        """Put up the flag, from any thread; a loop that is closed has nobody left to wake."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)


class MemoryBell:
    """Wakes every listener of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[MemoryListener] = set()

    def ring(self) -> None:
        """Wake every listener. Never raises."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.hear()

    def listen(self) -> MemoryListener:
        """Start listening, inside a running event loop."""
        listener = MemoryListener(self)
        with self._lock:
            self._listeners.add(listener)
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """Ring for this listener no more."""
        with self._lock:
            self._listeners.discard(listener)
