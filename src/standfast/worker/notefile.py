"""The medium of the notes: a file mapped into memory, so that a note costs no system call.

What is written to a mapped file belongs to the kernel at once and outlives the process that wrote it, however that
ends. The file opens with the length of what is valid. It grows last, by a plain copy of its eight bytes
(`Struct.pack_into` would clear them first), so that nobody ever sees half of an addition, also after a death in the
middle of one.
"""

import mmap
import os
from pathlib import Path
from struct import Struct

ROOM = 32 * 1024
"""Bytes that a file has at first. They are reserved on disk: to find it full in the middle of a note would kill."""

_LENGTH = Struct("=Q")
_START = _LENGTH.size


class FileLog:
    """Notes in a file that its writer has mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map = _create(path, b"")
        self._end = _START
        self.starts = 0

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return self._end - _START

    def append(self, data: bytes) -> None:
        """Add to the end; where the file is too small, it grows. Raises OSError where it cannot."""
        start = self._end
        end = start + len(data)
        if end > len(self._map):
            self.replace(self._map[_START:start] + data)
            return
        length = _LENGTH.pack(end - _START)
        # A signal handler may raise after a call. From here on there is none: so this is one step.
        self._map[start:end] = data
        self._map[:_START] = length
        self._end = end

    def put(self, position: int, byte: int) -> None:
        """Change one byte."""
        self._map[_START + position] = byte

    def get(self, position: int) -> int:
        """Return one byte."""
        return self._map[_START + position]

    def replace(self, data: bytes) -> None:
        """Start anew with this content, atomically."""
        fresh = self._path.with_suffix(".new")
        created = _create(fresh, data)
        end = _START + len(data)
        try:
            fresh.replace(self._path)
        finally:  # a signal handler may raise after the file was renamed
            if not fresh.exists():
                self._map, self._end, self.starts = created, end, self.starts + 1

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()


class FileLogReader:
    """Reads a `FileLog` of another process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        """Return all that it holds; nothing where it is still being made."""
        try:
            with self._path.open("rb", buffering=0) as file:
                header = file.read(_START)
                return file.read(*_LENGTH.unpack(header)) if len(header) == _START else b""
        except FileNotFoundError:
            return b""


def _create(path: Path, data: bytes) -> mmap.mmap:
    end = _START + len(data)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _reserve(file, max(ROOM, 2 * end))
        mapped = mmap.mmap(file, 0)
    finally:
        os.close(file)
    mapped[_START:end] = data
    mapped[:_START] = _LENGTH.pack(len(data))
    return mapped


def _reserve(file: int, size: int) -> None:
    """Give the file its size on disk, now, while a lack of room is an ordinary error."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    os.write(file, bytes(size))
    os.lseek(file, 0, os.SEEK_SET)
