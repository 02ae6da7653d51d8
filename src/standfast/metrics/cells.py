"""The medium of metrics: numbers in a file that its process has mapped into memory, so that a count is one write.

    version, rows, bytes of names ─ loose cells ─ the cells of each row ─ the names of the rows, one a line

A cell is eight bytes and only grows. What is counted belongs to the kernel at once and outlives the process,
however that ends. A row is added with its name first and the number of rows last, so that nobody reads half of one.
There is room for so many rows and no more: who counts decides what becomes of the rest.
"""

import errno
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from standfast.metrics.decoding import decoded

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
        content = path.read_bytes()
    except OSError:
        content = b""
    return counted_in(content)


def counted_in(content: bytes) -> Counted:
    """Return what the content of a file says; nothing where it has another layout, is damaged or only begun."""
    if len(content) != _SIZE:
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
