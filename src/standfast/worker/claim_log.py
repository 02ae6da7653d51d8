"""What a child has in hand, written down where its supervisor can read it without the child's help.

A line for each claim call that was answered or given up, and in it a word for each claim that it brought. Each word
opens with one byte that says how the claim stands; that byte changes in its place, everything else stays:

    <call> <how><job id>:<fence> …        how:  . in hand    r its handler runs    x not ours any more

So a start and a return cost a byte each. The medium outlives the child (notefile.py): the
supervisor can name the held claims in its beats even while a handler hogs the interpreter, and knows after a crash
which jobs had started.
"""

import mmap
import os
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Protocol

from standfast.model.job import ClaimRef

COMPACT_AT = 256 * 1024  # bytes of notes after which they are started anew with what still counts
_HELD, _RUNS, _OVER = b".rx"


@dataclass(frozen=True, slots=True)
class LoggedClaims:
    """What the notes say now. `running` are the claims whose handler started and has not returned."""

    closed_call: int = 0
    held: frozenset[ClaimRef] = frozenset()
    running: frozenset[ClaimRef] = frozenset()


class ClaimLogWriter(Protocol):
    """The medium of the notes. A position is how many bytes are before it. Each change of it is one step."""

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        ...

    @property
    def starts(self) -> int:
        """How often it was started anew."""
        ...

    def append(self, data: bytes) -> None:
        """Add to the end, all of it or nothing. Raises OSError where there is no room."""
        ...

    def put(self, position: int, byte: int) -> None:
        """Change one byte."""
        ...

    def get(self, position: int) -> int:
        """Return one byte."""
        ...

    def replace(self, data: bytes) -> None:
        """Start anew with this content, atomically."""
        ...


class ClaimLogReader(Protocol):
    """The supervisor's eye on the medium."""

    def read(self) -> bytes:
        """Return all that it holds."""
        ...


class NoClaimLog:
    """Keeps no notes: for a process after whose end nobody reads any."""

    size = starts = 0

    def append(self, data: bytes) -> None:
        """Forget it."""

    def put(self, position: int, byte: int) -> None:
        """Forget it."""

    def get(self, position: int) -> int:  # noqa: ARG002 - nothing was kept
        """Return nothing of note."""
        return 0

    def replace(self, data: bytes) -> None:
        """Forget it."""


class ClaimLog:
    """The child's pen."""

    def __init__(self, log: ClaimLogWriter) -> None:
        self._log = log
        self._places: dict[ClaimRef, int] = {}  # where the byte of each claim in hand is

    def answered(self, call: int, claims: Collection[ClaimRef]) -> None:
        """Note a claim call's answer, before anything is done with it."""
        line, places = _line(call, claims, self._log.size)
        try:
            self._places |= places  # before the write: every claim in the log has its place here
            if self._log.size + len(line) > COMPACT_AT or not self._appended(line):
                self._start_anew(call)
        except BaseException:
            self._forget(claims)  # the worker does not get them: a beat releases claims of a closed call
            raise

    def given_up(self, call: int) -> None:
        """Note that a claim call's answer will not be waited for."""
        self.answered(call, ())

    def started(self, ref: ClaimRef) -> None:
        """Note that a handler is about to run."""
        if (place := self._places.get(ref)) is not None:
            self._log.put(place, _RUNS)

    def returned(self, ref: ClaimRef) -> None:
        """Note that a handler has returned, or will not run after all."""
        if (place := self._places.get(ref)) is not None:
            self._log.put(place, _HELD)

    def ended(self, refs: Iterable[ClaimRef]) -> None:
        """Note that the store took (or refused) the endings of these claims: they are not ours any more."""
        for ref in refs:
            if (place := self._places.get(ref)) is not None:
                self._log.put(place, _OVER)
                self._places.pop(ref, None)

    def _appended(self, line: bytes) -> bool:
        """Tell whether there was room; a full disk may still have some for what counts."""
        try:
            self._log.append(line)
        except OSError:
            return False
        return True

    def _forget(self, claims: Iterable[ClaimRef]) -> None:
        """Cross out claims whose note was interrupted."""
        unwritten = [ref for ref in claims if self._places.get(ref, 0) >= self._log.size]
        for ref in unwritten:
            self._places.pop(ref, None)
        self.ended(claims)

    def _start_anew(self, call: int) -> None:
        written, starts = self._log.size, self._log.starts
        bytes_of = {ref: self._log.get(at) if at < written else _HELD for ref, at in self._places.items()}
        running = {ref for ref, byte in bytes_of.items() if byte == _RUNS}
        line, places = _line(call, [ref for ref, byte in bytes_of.items() if byte != _OVER], 0, running)
        try:
            self._log.replace(line)
        finally:  # where it was not replaced, what was noted before still holds
            if self._log.starts != starts:
                self._places = places


def _line(
    call: int, claims: Iterable[ClaimRef], start: int, running: Container[ClaimRef] = ()
) -> tuple[bytes, dict[ClaimRef, int]]:
    """Return a line that begins at `start`, and where the byte of each claim will be."""
    words, places = [str(call)], {}
    end = start + len(words[0]) + 1
    for ref in claims:
        word = f"{'r' if ref in running else '.'}{ref.job_id}:{ref.fence}"
        words.append(word)
        places[ref] = end
        end += len(word) + 1
    return f"{' '.join(words)}\n".encode("ascii"), places


def read_claim_log(log: ClaimLogReader) -> LoggedClaims:
    """Return what the child has in hand, as its supervisor reads it."""
    closed_call, held = 0, []
    for line in log.read().decode("ascii").splitlines():
        call, *words = line.split(" ")
        closed_call = int(call)
        held += [word for word in words if not word.startswith("x")]
    running = frozenset(_ref(word) for word in held if word.startswith("r"))
    return LoggedClaims(closed_call, frozenset(map(_ref, held)), running)


def _ref(word: str) -> ClaimRef:
    job_id, _, fence = word[1:].rpartition(":")
    return ClaimRef(job_id, int(fence))


# The log is a file mapped into memory: what is written belongs to the kernel at once, costs no system call and
# outlives the process. It opens with the length of what is valid, which is written last, by a plain copy of its
# eight bytes (`Struct.pack_into` would clear them first): nobody ever sees half of an addition.

ROOM = 32 * 1024
"""Bytes that a file has at first. They are reserved on disk: to find it full in the middle of a note would kill."""

_LENGTH = Struct("=Q")
_START = _LENGTH.size


class ClaimLogFile:
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


class ClaimLogFileReader:
    """Reads a `ClaimLogFile` of another process."""

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
