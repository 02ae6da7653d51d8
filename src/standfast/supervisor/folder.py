"""The folder of a running supervisor, in which its children keep their notes.

It is locked for as long as the supervisor lives, or a child to which it gave the lock, and the kernel lets go of it
however they end. So who finds a folder without a lock knows that nobody needs it: `kill -9` leaves it behind, and
the next supervisor removes it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "standfast-worker-"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where it is, and the file descriptor that locks it."""

    path: Path
    lock: int


@contextmanager
def private_folder() -> Iterator[Folder]:
    """Give a new folder that is gone afterwards; those of supervisors that were killed are removed first."""
    sweep_abandoned()
    folder = _locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)
        os.close(folder.lock)


def sweep_abandoned() -> None:
    """Remove the folders of this user that no living supervisor has locked."""
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            _remove_if_abandoned(folder)


def _locked() -> Folder:
    """Make a folder and lock it; again where somebody swept it in between."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _try_lock(folder)
        if lock is not None:
            if folder.exists():
                return Folder(folder, lock)
            os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """Lock a folder of ours; None where it is gone, another's, or locked."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(opened).st_uid == os.getuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


def _remove_if_abandoned(folder: Path) -> None:
    lock = _try_lock(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
