"""Until when a supervisor has kept the locks of its worker, in a file that both have mapped into memory.

Each lock has a slot of eight bytes with a boot time, which both processes share. So a handler that held the
interpreter for a minute sees at once, without a word on any line, that its lock was renewed meanwhile.
"""

import mmap
import os
from pathlib import Path
from struct import Struct

SLOTS = 1024
"""So many locks one worker may have kept for it at a time."""

LOST = -1.0
"""What a slot says of a lock that is lost."""

_TIME = Struct("=d")


class KeptFile:
    """The slots. The worker makes the file, and its supervisor opens it."""

    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        file = os.open(path, flags, 0o600)
        try:
            if create:
                os.write(file, bytes(SLOTS * _TIME.size))  # now, while a full disk is an ordinary error
            self._map = mmap.mmap(file, SLOTS * _TIME.size)
        finally:
            os.close(file)

    def read(self, slot: int) -> float:
        """Return the time in a slot."""
        start = slot * _TIME.size
        return float(_TIME.unpack(self._map[start : start + _TIME.size])[0])

    def write(self, slot: int, time: float) -> None:
        """Set the time in a slot, in one copy."""
        start = slot * _TIME.size
        self._map[start : start + _TIME.size] = _TIME.pack(time)

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
