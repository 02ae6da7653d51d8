"""The medium of the notes: a file mapped into memory, so that a note costs no system call.

What is written to a mapped file belongs to the kernel at once and outlives the process that wrote it, however that
ends. The file opens with a header: its generation (an inode number may come back, a generation does not) and the
length of what is valid. The length grows last, by a plain copy of its eight bytes (`Struct.pack_into` would clear
them first), so that nobody ever sees half of an addition, also after a death in the middle of one.
"""

import mmap
import os
from pathlib import Path
from struct import Struct

ROOM = 32 * 1024
"""Bytes that a file has at first. They are reserved on disk: to find it full in the middle of a note would kill."""

_HEADER = Struct("=QQ")
_LENGTH = Struct("=Q")
_LENGTH_AT = 8


class FileLog:
    """Notes in a file that its writer has mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._generation = 0
        self._map = self._create(path, b"")
        self._end = _HEADER.size

    def append(self, data: bytes) -> None:
        """Add to the end; where the file is too small, it grows. Raises OSError where it cannot."""
        start = self._end
        end = start + len(data)
        if end > len(self._map):
            self.replace(self._map[_HEADER.size : start] + data)
            return
        self._map[start:end] = data
        self._map[_LENGTH_AT : _HEADER.size] = _LENGTH.pack(end - _HEADER.size)
        self._end = end

    def replace(self, data: bytes) -> None:
        """Start anew with this content, atomically."""
        fresh = self._path.with_suffix(".new")
        created = self._create(fresh, data)
        fresh.replace(self._path)
        self._map.close()
        self._map, self._end = created, _HEADER.size + len(data)

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()

    def _create(self, path: Path, data: bytes) -> mmap.mmap:
        end = _HEADER.size + len(data)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _reserve(file, max(ROOM, 2 * end))
            mapped = mmap.mmap(file, 0)
        finally:
            os.close(file)
        self._generation += 1
        mapped[_HEADER.size : end] = data
        _HEADER.pack_into(mapped, 0, self._generation, len(data))
        return mapped


class FileLogReader:
    """Reads a `FileLog` of another process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._generation = 0
        self._length = 0

    def read(self) -> tuple[bool, bytes]:
        """Return what was added since the last read, and whether the log was started anew before it."""
        try:
            with self._path.open("rb", buffering=0) as file:
                header = file.read(_HEADER.size)
                if len(header) < _HEADER.size:  # it is being made
                    return False, b""
                generation, length = _HEADER.unpack(header)
                anew = generation != self._generation
                if anew:
                    self._generation, self._length = generation, 0
                file.seek(_HEADER.size + self._length)
                data = file.read(max(0, length - self._length))
        except FileNotFoundError:
            return False, b""
        self._length += len(data)
        return anew, data


def _reserve(file: int, size: int) -> None:
    """Give the file its size on disk, now, while a lack of room is an ordinary error."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    os.write(file, bytes(size))
    os.lseek(file, 0, os.SEEK_SET)
