"""A bell within one process: rung from any thread, heard in any number of event loops."""

import asyncio
import threading
from contextlib import suppress

from standfast.store.verb import Tone
from standfast.wakeup import Wakeup


class MemoryListener:
    """One ear. A ring between two waits is not lost."""

    def __init__(self, bell: "MemoryBell", tone: Tone) -> None:
        self.tone = tone
        self._bell = bell
        self._loop = asyncio.get_running_loop()
        self._wakeup = Wakeup()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        return await self._wakeup.rest(timeout)

    def close(self) -> None:
        """Stop listening."""
        self._bell.forget(self)

    def hear(self) -> None:
        """End the wait, or the next one, from any thread; a loop that is closed has nobody left to wake."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wakeup.call)


class MemoryBell:
    """Wakes listeners of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[MemoryListener] = set()

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone. Never raises."""
        with self._lock:
            listeners = [listener for listener in self._listeners if listener.tone is tone]
        for listener in listeners:
            listener.hear()

    def listen(self, tone: Tone = Tone.WORK) -> MemoryListener:
        """Start listening for this tone alone, inside a running event loop."""
        listener = MemoryListener(self, tone)
        with self._lock:
            self._listeners.add(listener)
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """Ring for this listener no more."""
        with self._lock:
            self._listeners.discard(listener)
