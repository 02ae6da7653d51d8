"""Turns to write, for the processes that share a file.

SQLite alone is not fair: who waits for its lock looks again after up to 100 ms, and who writes without a pause has
it again long before. So who writes has the turn meanwhile. Who waits for the turn looks for it all the time, and
who has written for a while without a pause makes one, in which the others find it free:

    take the turn ─► write, commit ─► give it back ─► write again ─► … ─► pause

The turn is a lock on the folder of the bell, which goes with the process that has it. It is a courtesy and never a
condition: SQLite's own lock still decides. Who cannot take the turn goes on without, and who has waited for it in
vain does not ask for a while.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

LASTS = 0.03
"""Seconds for which one writes without a pause."""

PATIENCE = 1.0
"""Seconds for which the turn is waited for: somebody may have stopped with it in hand."""

LEFT_ALONE = 10.0
"""Seconds for which it is not asked for after that."""

_PAUSE = 0.0005
_LOOK_EVERY = 0.0002


class Turn:
    """The turn of one writer, which has it as long as a `with` lasts. For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._door: int | None = None
        self._has_it = False
        self._since = self._until = self._asks_from = 0.0

    def __enter__(self) -> None:
        now = time.monotonic()
        if now < self._asks_from:
            return
        if now - self._until > _PAUSE:
            self._rested(now)
        elif now - self._since > LASTS:
            time.sleep(_PAUSE)
            self._rested(time.monotonic())
        with suppress(OSError):  # no such folder, or a file system without such locks
            self._has_it = self._take()
        if not self._has_it:
            self._asks_from = time.monotonic() + LEFT_ALONE

    def __exit__(self, *_: object) -> None:
        if self._has_it and self._door is not None:
            self._has_it = False
            _unlock(self._door)
            self._until = time.monotonic()

    def close(self) -> None:
        """Let go of the folder."""
        if self._door is not None:
            os.close(self._door)
            self._door = None

    def _rested(self, now: float) -> None:
        self._since = now
        self.close()  # the folder may be another by now

    def _take(self) -> bool:
        if self._door is None:
            self._door = self._open()
        give_up_at = time.monotonic() + PATIENCE
        while not _lock(self._door):
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _open(self) -> int:
        try:
            return os.open(self._folder, os.O_RDONLY)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(self._folder)  # noqa: PTH102 - the hot path
            return os.open(self._folder, os.O_RDONLY)


def _lock(descriptor: int) -> bool:
    """Return whether nobody else has it. Raises OSError where there is no such thing."""
    if sys.platform == "win32":
        raise OSError
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Give it back: to close it would not do, if a process was forked meanwhile that has it, too."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)
