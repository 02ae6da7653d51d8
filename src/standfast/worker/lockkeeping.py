"""The locks of a worker are kept by its supervisor: a handler that holds the interpreter keeps its locks."""

import asyncio
import os
import threading
from collections import deque
from functools import partial
from pathlib import Path

from standfast.durable.here import attempt_here
from standfast.locks.holding import Holding, Kept
from standfast.worker.keptfile import SLOTS, KeptFile
from standfast.worker.messages import Channel, Holds, LetsGo, Message

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
        self._file: KeptFile | None = None
        self._free = deque(range(SLOTS))
        self._slots = dict[str, int]()
        self._making = threading.Lock()

    def whose(self) -> str:
        """Say for which job the present code works."""
        attempt = attempt_here.get()
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

    def _opened(self) -> KeptFile:
        with self._making:
            if self._file is None:
                self._file = KeptFile(self._path, create=True)
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
