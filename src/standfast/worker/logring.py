"""The end of what a whole process logs, where its supervisor finds it after its death, however that came.

A file of a fixed size, mapped into memory: a line is copied into it, over the oldest, without a system call, and
belongs to the kernel at once. The file opens with how many bytes were ever written. That number grows last, so a
death in the middle of a line costs that line; the reader leaves out the line that was cut by the newest one.
"""

import logging
import mmap
import os
from pathlib import Path
from struct import Struct

from standfast.codec import NO_SECRETS
from standfast.worker.logtail import lines_of, logged_here

ROOM = 64 * 1024
"""Bytes that are kept."""

MOST_LINES = 200
"""Lines that are read of it."""

_WRITTEN = Struct("=Q")


class LogRing(logging.Handler):
    """Hears every record that reaches its logger, and keeps the last ones in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._written = 0
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, bytes(_WRITTEN.size + ROOM))  # now, while a full disk is an ordinary error
            self._map = mmap.mmap(file, 0)
        finally:
            os.close(file)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; whatever it holds, this does not fail."""
        if os.getpid() != self._pid:  # a fork shares the file, and would write over what we write
            return
        attempt = logged_here()
        lines = lines_of(record, NO_SECRETS if attempt is None else attempt.scrub)
        whose = "" if attempt is None else f"[{attempt.claim.task} {attempt.claim.job_id}] "
        self._write("".join(f"{whose}{line}\n" for line in lines).encode(errors="replace")[-ROOM:])

    def _write(self, data: bytes) -> None:
        start = self._written % ROOM
        first = data[: ROOM - start]
        begin = _WRITTEN.size + start
        self._map[begin : begin + len(first)] = first
        rest = data[len(first) :]
        self._map[_WRITTEN.size : _WRITTEN.size + len(rest)] = rest
        self._written += len(data)
        self._map[: _WRITTEN.size] = _WRITTEN.pack(self._written)


def keep_log_ring(path: Path, root: logging.Logger) -> None:
    """Keep the end of what reaches this logger in a file, for good.

    Only after the user's own set-up: `logging.basicConfig` does nothing to a logger that has a handler.
    """
    root.addHandler(LogRing(path))


def read_ring(path: Path) -> str:
    """Return the last lines of the log of a process, dead or alive; nothing where there are none."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if len(data) < _WRITTEN.size + ROOM:
        return ""
    [written] = _WRITTEN.unpack_from(data)
    ring = data[_WRITTEN.size :]
    if written <= ROOM:
        text = ring[:written]
    else:
        _, _, text = (ring[written % ROOM :] + ring[: written % ROOM]).partition(b"\n")
    return "\n".join(text.decode(errors="replace").splitlines()[-MOST_LINES:])
