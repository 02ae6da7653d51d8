"""What processes have counted that have ended, as one file: it takes in theirs, and no count is lost or told twice.

    begun ─► locked: its process counts ─► ended: nobody has its lock ─► taken in: named in the sum ─► removed

A sum is written aside and put in place by one rename, with the names of the files that it has taken in: a file that
is named there is not counted any more, whether it is still there or not. So it may end at any moment, and what is
there adds up to the same before and after each step.
"""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from standfast.metrics.cells import LOOSE, VERSION, WIDTH, Counted, Name, counted_in
from standfast.metrics.decoding import decoded
from standfast.metrics.ownfiles import NEW, open_own, read_own, try_lock
from standfast.metrics.totals import Sums

log = logging.getLogger(__name__)

_NAME = re.compile(rf"[0-9a-f]{{16}}\.v{VERSION}\.counts")
"""How a file is named in which somebody counts. Those of another layout have other names, and are foreign."""

_MOST = 2**128
"""More no cell of a sum has: so many files that are full there will not be."""

ENDED = f"ended.v{VERSION}.json"
_ASIDE = f"{ENDED}.new"


class Ended(msgspec.Struct, frozen=True):
    """The sum of those who have ended. Of those `taken` the files may still be there."""

    loose: tuple[int, ...] = (0,) * LOOSE
    rows: tuple[tuple[Name, tuple[int, ...]], ...] = ()
    taken: tuple[str, ...] = ()

    @classmethod
    def of(cls, sums: Sums, taken: tuple[str, ...]) -> "Ended":
        """Return a sum, with the names of the files that are in it."""
        return cls(tuple(sums.loose), tuple((name, tuple(row)) for name, row in sums.rows.items()), taken)

    @classmethod
    def read(cls, content: bytes | None) -> "Ended":
        """Return what a file says; nothing where there is none, or it is damaged: then the sum begins anew."""
        read = None if content is None else decoded(content, cls)
        return cls() if read is None or not read.is_whole else read

    @property
    def is_whole(self) -> bool:
        """Whether somebody may have counted so, in files that are named as such are."""
        cells = (self.loose, *(row for _, row in self.rows))
        return (
            len(self.loose) == LOOSE
            and all(len(row) == WIDTH for _, row in self.rows)
            and all(0 <= number <= _MOST for each in cells for number in each)
            and all(map(_NAME.fullmatch, self.taken))
        )

    @property
    def counted(self) -> Counted:
        """What they have counted."""
        return Counted(self.loose, dict(self.rows))


def new_name() -> str:
    """Return a name that no file has had."""
    return f"{secrets.token_hex(8)}.v{VERSION}.counts"


def counts_in(folder: Path) -> list[str]:
    """Return the names of the files in which somebody counts, or has counted; none where there is no folder."""
    try:
        return sorted(file.name for file in folder.iterdir() if _NAME.fullmatch(file.name))
    except FileNotFoundError:
        return []


def counted_of(content: bytes | None) -> Counted:
    """Return what somebody has counted; nothing of what is gone, foreign or damaged."""
    return Counted() if content is None else counted_in(content)


def fold(folder: Path) -> None:
    """Take in the files of those who have ended. Raises OSError where it cannot; then all is as it was.

    One does it at a time: who finds another at it leaves it to that one.
    """
    with _alone(folder) as alone, ExitStack() as held:
        if not alone:
            return
        ended = Ended.read(read_own(folder / ENDED))
        left = tuple(name for name in ended.taken if not _removed(folder / name))
        over = [name for name in counts_in(folder) if name not in left and _has_ended(folder / name, held)]
        if over:
            sums = Sums({})
            sums.add(ended.counted)
            for name in over:
                sums.add(counted_of(read_own(folder / name)))
            _put(folder, Ended.of(sums, (*left, *over)))
            for name in over:
                _removed(folder / name)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Tell whether nobody else folds, and keep it so."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield try_lock(opened)
    finally:
        fcntl.flock(opened, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file, too
        os.close(opened)


def _has_ended(path: Path, held: ExitStack) -> bool:
    """Tell whether whoever counted in a file is gone; if so nobody begins in it meanwhile."""
    file = open_own(path)
    if file is None:
        return False
    held.callback(os.close, file)
    return try_lock(file)


def _put(folder: Path, ended: Ended) -> None:
    _removed(folder / _ASIDE)  # of one who died at it, or foreign
    file = os.open(folder / _ASIDE, os.O_WRONLY | os.O_EXCL | NEW, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(msgspec.json.encode(ended))
        opened.flush()
        os.fsync(file)  # what is renamed before it is on disk may be empty after a power cut
    (folder / _ASIDE).rename(folder / ENDED)


def _removed(path: Path) -> bool:
    """Remove a file that was taken in; tell whether it is gone. One that cannot be removed stays named."""
    try:
        path.unlink()
    except FileNotFoundError:
        return True
    except OSError as error:
        log.debug("%s cannot be removed: %s", path, error.strerror)
        return False
    return True
