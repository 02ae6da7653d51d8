"""How often a cell tells its worker how far a handler is: at once, but not as often as a handler may say it."""

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

from standfast.core.job import Progress

PACE = 0.05
"""Seconds between two words: twice as often as the worker passes them on."""


class Pace:
    """Passes progress on, from any thread: the first word at once, of those that follow the latest, after a while.

    The loop sees to it that the last one is not left lying. Where a coroutine blocks the loop, its next word does.
    """

    def __init__(self, tell: Callable[[Progress], None], loop: asyncio.AbstractEventLoop) -> None:
        self._tell = tell
        self._loop = loop
        self._lock = threading.RLock()  # a destructor may speak at any moment, in this very thread
        self._waiting: Progress | None = None
        self._next_at = 0.0
        self._timed = False

    def __call__(self, progress: Progress) -> None:
        """Take a word."""
        with self._lock:
            self._waiting, wait = progress, self._next_at - monotonic()
            if wait <= 0:
                self.flush()
            elif not self._timed:
                self._timed = True
                self._loop.call_soon_threadsafe(self._loop.call_later, wait, self._later)

    def flush(self) -> None:
        """Pass on what waits."""
        with self._lock:
            progress, self._waiting = self._waiting, None
            if progress is not None:
                self._next_at = monotonic() + PACE
                self._tell(progress)

    def _later(self) -> None:
        with self._lock:
            self._timed = False
            self.flush()
