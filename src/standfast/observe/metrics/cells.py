"""The files that processes count in for metrics: what a cell of them means, and how others read them."""

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from standfast.model.records import decoded
from standfast.model.states import Move
from standfast.observe.figures.histogram import ends_at

# Files in a folder that others may write to as well: only plain ones of this user are read, and no links.

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


# The medium of metrics: numbers in a file that its process has mapped into memory, so that a count is one write.
#
#     version, rows, bytes of names ─ loose cells ─ the cells of each row ─ the names of the rows, one a line
#
# A cell is eight bytes and only grows. What is counted belongs to the kernel at once and outlives the process,
# however that ends. A row is added with its name first and the number of rows last, so that nobody reads half of one.
# There is room for so many rows and no more: who counts decides what becomes of the rest.

VERSION = 1
"""What the first cell says: a file of another layout, or whose places mean something else, is not read."""

LOOSE = 16
"""Cells that belong to no row."""

WIDTH = 40
"""Cells of a row."""

ROWS = 272

NAMES = 64 * 1024
"""Bytes for the names of all rows."""

FULL = 2**64 - 1
"""More than this no cell holds."""

Name = tuple[str, ...]

_VERSION, _ROWS, _NAMED = range(3)
_HEAD = 4
_FIRST = _HEAD + LOOSE
_NAMES_AT = 8 * (_FIRST + ROWS * WIDTH)
_SIZE = _NAMES_AT + NAMES


class Cells:
    """The file, as its one writer has it. Raises OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(file, bytes(_SIZE)) < _SIZE:  # now, while a full disk is an ordinary error
                path.unlink()  # others may do with the room that there is
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._map: mmap.mmap | bytearray = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self.path = path
        self.values = memoryview(self._map)[:_NAMES_AT].cast("Q")
        """All cells: `values[row + place] += 1` counts."""
        self.values[_VERSION] = VERSION

    @property
    def loose(self) -> int:
        """Where the cells begin that belong to no row."""
        return _HEAD

    def add_row(self, name: Name) -> int | None:
        """Begin a row; return where its cells begin, None where there is no room for it."""
        line = msgspec.json.encode(name) + b"\n"
        rows, named = self.values[_ROWS], self.values[_NAMED]
        if rows >= ROWS or named + len(line) > NAMES:
            return None
        begin = _NAMES_AT + named
        self._map[begin : begin + len(line)] = line
        self.values[_NAMED] = named + len(line)
        self.values[_ROWS] = rows + 1
        return _FIRST + rows * WIDTH

    def close(self) -> None:
        """Let go of the file, which stays as it is; who counts on does so in memory, and nobody hears of it."""
        mapped, self._map = self._map, bytearray(self._map)
        self.values.release()
        self.values = memoryview(self._map)[:_NAMES_AT].cast("Q")
        if isinstance(mapped, mmap.mmap):
            mapped.close()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a file says: its loose cells, and those of each row."""

    loose: tuple[int, ...] = (0,) * LOOSE
    rows: Mapping[Name, tuple[int, ...]] = field(default_factory=dict)


def read_cells(path: Path) -> Counted:
    """Return what somebody has counted so far; nothing where there is no such file, or none that can be read."""
    try:
        return counted_in(path.read_bytes())
    except OSError:
        return Counted()


def counted_in(content: bytes | None) -> Counted:
    """Return what a file says; nothing where it is gone, has another layout, is damaged or only begun."""
    if content is None or len(content) != _SIZE:
        return Counted()
    values = memoryview(content)[:_NAMES_AT].cast("Q")
    if values[_VERSION] != VERSION or values[_ROWS] > ROWS:
        return Counted()
    lines = content[_NAMES_AT:].split(b"\n", values[_ROWS])[: values[_ROWS]]
    rows = {}
    for number, line in enumerate(lines):
        name, begin = decoded(line, Name), _FIRST + number * WIDTH
        if name is None:
            return Counted()
        rows[name] = tuple(values[begin : begin + WIDTH])
    return Counted(tuple(values[_HEAD:_FIRST]), rows)


# The places of a row. Files outlive a release: give VERSION another number when you give a place another meaning.

JOBS, CALLS = "jobs", "calls"
"""The first word of a row's name: `jobs` with a queue and a task, `calls` with a verb."""

OTHER = "_other_"
"""Stands for all names that there was no room for."""
OTHER_JOBS = (JOBS, OTHER, OTHER)
"""The row of all pairs that there was no room for, and of a pair that is called so itself."""

_LENGTHS = {JOBS: 3, CALLS: 2}


def is_name(name: Sequence[str]) -> bool:
    """Tell whether a row may be called so; what is not was written by something damaged."""
    return bool(name) and _LENGTHS.get(name[0]) == len(name)


LONGEST = 120
"""Characters of a name that are told."""

_ENDINGS = {
    Move.COMPLETE: "completed",
    Move.RETRY: "retried",
    Move.DIE: "dead",
    Move.CANCEL: "cancelled",
    Move.RELEASE: "released",
    Move.SNOOZE: "snoozed",
    Move.BLOCK: "blocked",
}
OUTCOMES = tuple(_ENDINGS.values())
OUTCOME_OF: Mapping[Move, int] = {move: place for place, move in enumerate(_ENDINGS)}
"""How an attempt ended, by place."""
DEAD = OUTCOME_OF[Move.DIE]

BUCKETS = 13
"""Four times as wide each as the one before; the last has no end."""
LAST = BUCKETS - 1

LOST = len(OUTCOMES)
RUN_MICROS = LOST + 1
LAG_MICROS = RUN_MICROS + 1
RUN = LAG_MICROS + 1
LAG = RUN + BUCKETS
ENQUEUED = LAG + BUCKETS
"""Places of a row of jobs: claims that were lost, two histograms with their sums, and jobs that were enqueued.

Those before the last are written by the one who counts how attempts end, all at once.
"""

FENCED = frozenset({"start", "progress", "save", "finish"})
"""The verbs that a store refuses to those whose claim is not valid any more."""

FAILED, STALE, CALL_MICROS, TOOK = range(4)
"""Places of a row of calls: those that failed, writes that were refused, and a histogram with its sum."""

JOB_ENDS: Sequence[float] = tuple(ends_at(4 * bucket) / 1000 for bucket in range(LAST))
"""Where the buckets of runs and lags end, in seconds: from a millisecond to more than an hour."""
CALL_ENDS: Sequence[float] = tuple(ends_at(4 * bucket) / 10_000 for bucket in range(LAST))
"""And those of calls, which begin at a tenth of a millisecond."""

EVENTS = ("ready", "recycled", "stopped", "crashed", "hung", "lost", "drained")
"""What became of workers, by place among the loose cells."""
BLOCKED, BLOCKED_MICROS, OUTAGES = range(len(EVENTS), len(EVENTS) + 3)
"""Other loose cells: how often and for how long an event loop was blocked, and how often the store went away."""


def bucket_of(units: float) -> int:
    """Return the bucket of a span, in units of the first."""
    return min(int(units * units).bit_length() + 3 >> 2, LAST) if units > 0 else 0
