"""Tells of exceptions that ended work in the background, in a thread of its own: nobody waits for store or disk.

The thread begins with the first exception. In a process without any, nothing of what makes incidents is even
imported.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from standfast.background.work import Work
from standfast.clock import Clock
from standfast.events import Events
from standfast.settings import Settings
from standfast.store.backend import Backend

log = logging.getLogger(__name__)

LAST_WORDS = 3.0
"""Seconds for what is to be written when the app is closed."""


class House(Protocol):
    """What the work in its background needs of an app."""

    @property
    def settings(self) -> Settings:
        """How an app behaves."""
        ...

    @property
    def clock(self) -> Clock:
        """Where time comes from."""
        ...

    @property
    def backend(self) -> Backend:
        """The open store."""
        ...

    @property
    def events(self) -> Events:
        """Where to say that the store is away."""
        ...


class Teller:
    """Hears of exceptions in any thread."""

    def __init__(self, house: House, *, to_disk: bool) -> None:
        self._house = house
        self._to_disk = to_disk
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.heard_of: deque[tuple[Work[Any], BaseException]] = deque()
        self.wake: Callable[[], object] | None = None
        """Ends the rest of the thread, once it has one."""

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._closed

    def heard(self, work: Work[Any], error: BaseException) -> None:
        """Hear of an exception. Never raises, nor waits for anything."""
        if not self._taken_in(work, error):
            with suppress(Exception):  # nothing is left to write an incident with, but the log may go on
                log.error("%s failed, and this is no incident: %s", work.name, work.call.scrub.text(repr(error)))

    def close(self) -> None:
        """Have told what is not, and wait for that, but not for long."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(LAST_WORDS)

    def _taken_in(self, work: Work[Any], error: BaseException) -> bool:
        with self._lock:
            if self._closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="standfast-background-incidents", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process cannot have another thread
                    return False
                self._thread = thread
            self.heard_of.append((work, error))
            self._wake()
            return True

    def _wake(self) -> None:
        if self.wake is not None:
            with suppress(RuntimeError):  # the thread has ended
                self.wake()

    def _run(self) -> None:
        try:
            from standfast.background.telling import tell  # noqa: PLC0415 - only for those who have something to tell

            tell(self, self._house, to_disk=self._to_disk)
        except Exception:
            log.exception("what fails in the background cannot be told any more")
