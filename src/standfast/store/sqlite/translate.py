"""The boundary: what sqlite3 raises becomes our own errors, in one line that names the file and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from standfast.errors import StoreError, StoreFullError, StoreUnavailableError

BUSY_TIMEOUT = 5.0
"""Seconds that a call waits for another writer before it gives up."""

_PRIMARY = 0xFF

_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
"""SQLite says FULL for ENOSPC only; a file-size limit or a quota ends as a failed write."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_AWAY = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Let no error of sqlite3 escape."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another connection was in the way."""
    return _code(error) & _PRIMARY in _BUSY


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Return our error for one of sqlite3's."""
    extended = _code(error)
    code = extended & _PRIMARY
    if is_busy(error):
        return StoreUnavailableError(
            f"{path} is locked by another writer for over {BUSY_TIMEOUT:g} s: end its transaction, or try again"
        )
    if code in _NO_ROOM or extended in _NO_ROOM:
        return StoreFullError(
            f"{path} cannot grow, nothing of this call was stored: free disk space, or raise the quota or file-size"
            f" limit ({error})"
        )
    if code in _AWAY:
        return StoreUnavailableError(
            f"{path} cannot be read or written now: check the disk, then try again ({error})"
        )
    return StoreError(_refusal(code, error, path))


def _code(error: sqlite3.Error) -> int:
    # Errors that the Python module itself raises have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _refusal(code: int, error: sqlite3.Error, path: Path) -> str:
    if code in _DAMAGED:
        return f"{path} is no sound SQLite database: name another file, or restore it from a backup ({error})"
    if code in _FORBIDDEN:
        return f"{path} may not be written: give this user write permission on it and on its folder ({error})"
    if code == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(error, path)
    return f"{path} refused a statement ({error})"


def _cannot_open(error: sqlite3.Error, path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} for {path.name}: create it with `mkdir -p {path.parent}`"
    if path.is_dir():
        return f"{path} is a folder: name a file in it"
    return f"{path} cannot be opened: check its permissions and those of its folder ({error})"
