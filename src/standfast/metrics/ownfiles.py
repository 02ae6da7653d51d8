"""Files in a folder that others may write to as well: only plain ones of this user are read, and no links."""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

NEW = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""How a file is opened that may have to be made."""

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | NEW

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOREIGN = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EACCES})
"""What opening fails with where there is nothing, a link, a socket, or what is another's."""


def open_own(path: Path) -> int | None:
    """Open a file for reading; None where it is gone, or foreign. Raises OSError where that cannot be told now."""
    try:
        file = os.open(path, _READ)
    except OSError as error:
        if error.errno in _FOREIGN:
            return None
        raise
    if _is_own(file):
        return file
    os.close(file)
    return None


def _is_own(file: int) -> bool:
    found = os.fstat(file)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def read_own(path: Path) -> bytes | None:
    """Return what is in a file; None where it is gone, or foreign. Raises OSError where it cannot be read now."""
    file = open_own(path)
    if file is None:
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def append_own(path: Path, content: bytes) -> None:
    """Write at the end of a file, by one call, and make it where there is none; nothing to what is foreign.

    Raises OSError where it cannot be opened or written.
    """
    file = os.open(path, _APPEND, 0o600)
    try:
        if _is_own(file):
            os.write(file, content)
    finally:
        os.close(file)


def try_lock(file: int) -> bool:
    """Lock an open file or folder against all who open it apart; tell whether that was possible."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
