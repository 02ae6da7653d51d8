"""Metrics that several processes of a machine count in one folder: their files, and the sum of what has ended."""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.records import decoded
from standfast.observe.figures.counts import PAIRS
from standfast.observe.metrics.cells import (
    LOOSE,
    NEW,
    VERSION,
    WIDTH,
    Counted,
    Name,
    append_own,
    counted_in,
    is_name,
    open_own,
    read_own,
    try_lock,
)
from standfast.observe.metrics.meter import Meter
from standfast.observe.metrics.totals import Sums


class SharedNames:
    """The pairs of a queue and a task that all who count in one folder tell by name: the first so many.

    They are a file that only grows, a pair a line. Each line comes by one write at its end, so those who write at
    the same time see the same order, and nobody waits. A list that is full is not looked at any more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Name, None] = {}

    def admits(self, name: Name) -> bool:
        """Tell whether a pair is told by name, for ever the same; where the list cannot be read it is not."""
        try:
            if name not in self._known and len(self._known) < PAIRS:
                self._read()
                if name not in self._known and len(self._known) < PAIRS:
                    append_own(self._path, msgspec.json.encode(name) + b"\n")
                    self._read()
        except OSError:
            return False
        return name in self._known

    def _read(self) -> None:
        """Learn the first lines; what is damaged or was cut short by a full disk is none, whatever follows it."""
        for line in (read_own(self._path) or b"").split(b"\n")[:-1]:
            if len(self._known) >= PAIRS:
                break
            name = decoded(line, Name)
            if name is not None and is_name(name):
                self._known[name] = None


#     begun ─► locked: its process counts ─► ended: nobody has its lock ─► taken in: named in the sum ─► removed
#
# A sum is written aside and put in place by one rename, with the names of the files that it has taken in: a file that
# is named there is not counted any more, whether it is still there or not. So it may end at any moment, and what is
# there adds up to the same before and after each step.

log = logging.getLogger(__name__)

_NAME = re.compile(rf"[0-9a-f]{{16}}\.v{VERSION}\.counts")
"""How a file is named in which somebody counts. Those of another layout have other names, and are foreign."""

_MOST = 2**128
"""More no cell of a sum has: so many files that are full there will not be."""

ENDED = f"ended.v{VERSION}.json"
_ASIDE = f"{ENDED}.new"


class EndedCounts(msgspec.Struct, frozen=True):
    """The sum of those who have ended. Of those `taken` the files may still be there."""

    loose: tuple[int, ...] = (0,) * LOOSE
    rows: tuple[tuple[Name, tuple[int, ...]], ...] = ()
    taken: tuple[str, ...] = ()

    @classmethod
    def of(cls, sums: Sums, taken: tuple[str, ...]) -> "EndedCounts":
        """Return a sum, with the names of the files that are in it."""
        return cls(tuple(sums.loose), tuple((name, tuple(row)) for name, row in sums.rows.items()), taken)

    @classmethod
    def read(cls, content: bytes | None) -> "EndedCounts":
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


def fold(folder: Path) -> None:
    """Take in the files of those who have ended. Raises OSError where it cannot; then all is as it was.

    One does it at a time: who finds another at it leaves it to that one.
    """
    with _alone(folder) as alone, ExitStack() as held:
        if not alone:
            return
        ended = EndedCounts.read(read_own(folder / ENDED))
        left = tuple(name for name in ended.taken if not _removed(folder / name))
        over = [name for name in counts_in(folder) if name not in left and _has_ended(folder / name, held)]
        if over:
            sums = Sums({})
            sums.add(ended.counted)
            for name in over:
                sums.add(counted_in(read_own(folder / name)))
            _put(folder, EndedCounts.of(sums, (*left, *over)))
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


def _put(folder: Path, ended: EndedCounts) -> None:
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


_AGREED = f"named.v{VERSION}.jsonl"


class SharedMeter(Meter):
    """Counts in a shared folder, until it is closed or its process ends. `lock` is its file, open and locked."""

    def __init__(self, path: Path, lock: int, agreed: SharedNames) -> None:
        super().__init__(path)
        self._locked: int | None = lock
        self._agreed = agreed

    def close(self) -> None:
        """Let go of the file: the next who begins takes it in."""
        super().close()
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def _tells(self, name: Name) -> bool:
        """Tell whether a pair is among those that all who count here tell by name."""
        return self._agreed.admits(name)


class SharedFolder:
    """A folder in which the processes of one machine count that are scraped at one place, such as a web server's.

    Each counts in a file of its own and keeps it locked; the kernel lets go of the lock however the process ends.
    Whoever begins takes in the files of those who have ended; whoever is scraped adds up what is there, and waits
    for nobody. The folder is made by the first who counts there, for its user alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def meter(self) -> SharedMeter:
        """Begin to count in a new file. Raises OSError where none can be made."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fold(self.path)
        except OSError as error:
            log.warning("what ended workers counted stays in files of its own: %s: %s", self.path, error.strerror)
        path, lock = self._begun()
        try:
            return SharedMeter(path, lock, SharedNames(self.path / _AGREED))
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(lock)
            raise

    def required_meter(self) -> SharedMeter:
        """Begin to count. Raises ConfigurationError where that cannot be, as something has to be put right."""
        try:
            return self.meter()
        except FileExistsError as error:
            raise ConfigurationError(f"metrics_dir={self.path} is not a folder; name one, or none") from error
        except OSError as error:
            raise ConfigurationError(
                f"metrics cannot be counted in metrics_dir={self.path}: {error.strerror}; name a folder that this"
                " process may write to"
            ) from error

    def sums(self) -> Sums:
        """Return all that was counted up to now. Raises OSError where a part of it cannot be read.

        What ended meanwhile and was taken in is in another sum by then: so all is read until that has not changed.
        """
        while True:
            before = read_own(self.path / ENDED)
            ended = EndedCounts.read(before)
            sums = Sums({})
            sums.add(ended.counted)
            for name in counts_in(self.path):
                if name not in ended.taken:
                    sums.add(counted_in(read_own(self.path / name)))
            if read_own(self.path / ENDED) == before:
                return sums

    def _begun(self) -> tuple[Path, int]:
        """Make a file and lock it; another where somebody took it in before it was locked."""
        while True:
            path = self.path / new_name()
            lock = os.open(path, os.O_RDWR | os.O_EXCL | NEW, 0o600)
            if try_lock(lock) and path.exists():
                return path, lock
            os.close(lock)
