"""Which write-ahead log belongs to which file. SQLite takes any log that has the right name.

A backup that is moved over a file in use lies beside the log of the file before it, and SQLite would write that log
into the backup. A log that is deleted in use has lost its name only: who has it open still writes to it, and others
begin another one. Both end in a damaged file. So each process notes which log it found with which file, and none
opens a file like this:

    another file than noted, and the log noted, or its index (`-shm`)  ─► it was replaced
    the index of a log without the log, or with another one            ─► the log was deleted

Files are known by their inodes. The notes are in the folder of the bell, which nobody copies back.
"""

import os
import secrets
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from standfast.errors import StoreUnavailableError
from standfast.store.brief import refuse_foreign

if TYPE_CHECKING:
    from standfast.store.sqlite.connect import Files

_LOOKS = 3
_LOOK_EVERY = 0.005
"""Who closes a file removes first the index and then the log: so what looks wrong once may be an end under way."""


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A file, its log and the index of that: the inode of each, None for what is not there or has nothing in it."""

    file: int | None
    log: int | None
    index: int | None


def refuse_foreign_logs(files: "Files", orphans: Collection[int | None] = ()) -> None:
    """Raise StoreUnavailableError if a log is not that of its file, or was deleted in use.

    `orphans` are indexes of which the caller knows that their log was deleted, whatever lies there now.
    """
    noted = _noted(files)
    for path in (files.jobs, files.beats):
        found, known = look(path), noted.get(path.name)
        if known is not None and found.file not in {None, known.file}:
            log = _with_content(path, found.log)
            if (log is not None and log == known.log) or (found.index is not None and found.index == known.index):
                raise _replaced(path)
        if _has_lost_its_log(path, orphans):
            raise _deleted(path)


def note_logs(files: "Files", jobs: int | None, beats: int | None) -> None:
    """Note which logs the files have, if they are these still: to be called while a connection has them open."""
    found = {path.name: look(path) for path in (files.jobs, files.beats)}
    if (found[files.jobs.name].file, found[files.beats.name].file) != (jobs, beats) or found == _noted(files):
        return
    part = files.bell / f"logs-{secrets.token_hex(4)}"
    try:
        files.bell.mkdir(exist_ok=True)
        part.write_bytes(msgspec.json.encode(found))
        part.replace(_notes(files))
    except OSError as error:  # then this process alone knows
        refuse_foreign(error)
        with suppress(OSError):
            part.unlink()


def forget_logs(files: "Files") -> None:
    """Forget what was noted where no file has a log any more: the inodes may become those of others."""
    if all(found.log is None and found.index is None for found in map(look, (files.jobs, files.beats))):
        with suppress(OSError):
            _notes(files).unlink()


def look(path: Path) -> Found:
    """Return what there is of a file."""
    return Found(inode(str(path)), inode(f"{path}-wal"), inode(f"{path}-shm"))


def inode(name: str) -> int | None:
    """Return which file has this name, None where there is none."""
    try:
        return os.stat(name).st_ino  # noqa: PTH116 - the hot path
    except OSError as error:
        refuse_foreign(error)
        return None


def _with_content(path: Path, log: int | None) -> int | None:
    try:
        return log if Path(f"{path}-wal").stat().st_size else None
    except OSError as error:
        refuse_foreign(error)
        return None


def _has_lost_its_log(path: Path, orphans: Collection[int | None]) -> bool:
    for _ in range(_LOOKS):
        before, log, after = inode(f"{path}-shm"), inode(f"{path}-wal"), inode(f"{path}-shm")
        if before is None or before != after or (log is not None and before not in orphans):
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _noted(files: "Files") -> Mapping[str, Found]:
    try:
        return msgspec.json.decode(_notes(files).read_bytes(), type=dict[str, Found])
    except OSError as error:
        refuse_foreign(error)
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _notes(files: "Files") -> Path:
    return files.bell / "logs"


def _replaced(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{path} was replaced, and {path.name}-wal and {path.name}-shm of the file before it would damage the new"
        " one: delete these two; to take a backup while programs use the file, run `standfast restore FILE`"
    )


def _deleted(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{path}-wal was deleted while programs use the file, and nothing more is accepted: stop them all, delete"
        f" {path.name}-shm if it is still there, and start them again"
    )
