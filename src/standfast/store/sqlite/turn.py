"""Turns to write, for the processes that share a file.

SQLite alone is not fair: who waits for its lock looks again after up to 100 ms, and who writes without a pause has
it again long before. So who writes has the turn meanwhile. Who waits for the turn looks for it all the time, and
who has written for a while without a pause makes one, in which the others find it free:

    take the turn ─► write, commit ─► give it back ─► write again ─► … ─► pause

The turn is a lock on the folder of the bell, which goes with the process that has it. It is a courtesy and never a
condition: SQLite's own lock still decides. Who cannot take the turn goes on without, and who has waited for it in
vain does not ask for a while.
"""

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from standfast.store.brief import refuse_foreign

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
    """The turn of one writer, which has it as long as a `with` lasts. For one thread at a time.

    A signal handler may raise anywhere in it. `close`, or the next use, then lets go of what is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._door: list[int] = []
        """The open folder, or nothing."""
        self._may_have_it = False
        self._since = self._until = self._asks_from = 0.0

    def __enter__(self) -> None:
        if self._may_have_it:
            self.close()
        now = time.monotonic()
        if now < self._asks_from:
            return
        if now - self._until > _PAUSE:
            self._rested(now)
        elif now - self._since > LASTS:
            time.sleep(_PAUSE)
            self._rested(time.monotonic())
        try:
            self._may_have_it = True
            self._may_have_it = self._take()
        except OSError as error:  # no such folder, or a file system without such locks
            refuse_foreign(error)
            self._may_have_it = False
        if not self._may_have_it:
            self._asks_from = time.monotonic() + LEFT_ALONE

    def __exit__(self, *_: object) -> None:
        if self._may_have_it:
            try:
                _unlock(self._door[0])
                self._may_have_it = False
            except OSError as error:
                refuse_foreign(error)  # the next use lets go of the folder
            self._until = time.monotonic()

    def close(self) -> None:
        """Let go of the turn, and of the folder."""
        door, self._door = self._door, []
        try:
            try:
                if door and self._may_have_it:
                    _unlock(door[0])
            finally:
                if door:
                    os.close(door[0])  # whatever was raised since its number was forgotten
        except OSError as error:
            refuse_foreign(error)
        self._may_have_it = False

    def _rested(self, now: float) -> None:
        self._since = now
        self.close()  # the folder may be another by now

    def _take(self) -> bool:
        if not self._door:
            self._open()
        give_up_at = time.monotonic() + PATIENCE
        while not _lock(self._door[0]):
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _open(self) -> None:
        try:
            self._open_folder()
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(self._folder)  # noqa: PTH102 - the hot path
            self._open_folder()

    def _open_folder(self) -> None:
        # Opening and noting are one step of C: no signal handler runs in between, and no descriptor is forgotten.
        self._door.extend(map(os.open, (self._folder,), (os.O_RDONLY,)))


def _lock(descriptor: int) -> bool:
    """Return whether nobody else has it. Raises OSError where there is no such thing."""
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Give it back: to close it would not do, if a process was forked meanwhile that has it, too."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)
