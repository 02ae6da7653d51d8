"""Has the supervisor keep the locks of handlers, also while a handler holds the interpreter.

A file that both processes have mapped tells until when each lock is kept: eight bytes with a boot time for each.
"""

import asyncio
import mmap
import os
import threading
from collections import deque
from functools import partial
from pathlib import Path
from struct import Struct

from standfast.durable.lockkeeper import Holding, Kept
from standfast.durable.runtime import current_attempt
from standfast.worker.messages import Channel, Holds, LetsGo, Message

SLOTS = 1024  # so many locks one worker may have kept for it at a time
LOST = -1.0  # what a slot says of a lock that is lost
_TIME = Struct("=d")


class LockExpiryFile:
    """The slots. The worker makes the file, and its supervisor opens it."""

    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        file = os.open(path, flags, 0o600)
        try:
            if create:
                os.write(file, bytes(SLOTS * _TIME.size))  # now, while a full disk is an ordinary error
            self._map = mmap.mmap(file, SLOTS * _TIME.size)
        finally:
            os.close(file)

    def read(self, slot: int) -> float:
        """Return the time in a slot."""
        start = slot * _TIME.size
        return float(_TIME.unpack(self._map[start : start + _TIME.size])[0])

    def write(self, slot: int, time: float) -> None:
        """Set the time in a slot, in one copy."""
        start = slot * _TIME.size
        self._map[start : start + _TIME.size] = _TIME.pack(time)

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()


SAID_WITHIN = 1.0
"""Seconds that a thread waits for its event loop to say something; the keeper of this process is there too."""


class SupervisedLocks:
    """Has the supervisor keep the locks that handlers acquire. Made in the event loop of the worker."""

    def __init__(self, channel: Channel, path: Path) -> None:
        self.pid = os.getpid()
        self._channel = channel
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._file: LockExpiryFile | None = None
        self._free = deque(range(SLOTS))
        self._slots = dict[str, int]()
        self._making = threading.Lock()

    def whose(self) -> str:
        """Say for which job the present code works."""
        attempt = current_attempt.get()
        return "" if attempt is None else f"job {attempt.claim.job_id}"

    def keep(self, holding: Holding) -> Kept | None:
        """Have a place kept; None where there are too many, or no room for the file."""
        try:
            file, slot = self._opened(), self._free.popleft()
        except (IndexError, OSError):
            return None
        file.write(slot, 0.0)
        self._slots[holding.id] = slot
        kept = partial(file.read, slot)
        self._say(Holds(holding.name, holding.id, holding.ttl, holding.granted_at, str(self._path), slot))
        return kept

    def let_go(self, holding: Holding) -> None:
        """Have a place kept no longer."""
        slot = self._slots.pop(holding.id, None)
        if slot is not None:
            holding.settle()
            self._say(LetsGo(holding.id))
            self._free.append(slot)

    def _opened(self) -> LockExpiryFile:
        with self._making:
            if self._file is None:
                self._file = LockExpiryFile(self._path, create=True)
            return self._file

    def _say(self, message: Message) -> None:
        """Say something from any thread, before what comes next: that may hold the interpreter for long."""
        if threading.get_ident() == self._thread:
            self._channel.send(message)
            return
        said = threading.Event()

        def say() -> None:
            self._channel.send(message)
            said.set()

        self._loop.call_soon_threadsafe(say)
        said.wait(SAID_WITHIN)
