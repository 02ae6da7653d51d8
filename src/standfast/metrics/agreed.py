"""Which pairs of a queue and a task are told by name, as all who count in one folder agree: the first so many.

A list that only grows, a pair a line. Each line comes by one write at the end of the file, so those who write at
the same time see the same order, and who came too late. Nobody waits for anybody.
"""

from pathlib import Path

import msgspec

from standfast.metrics.cells import Name
from standfast.metrics.decoding import decoded
from standfast.metrics.ownfiles import append_own, read_own
from standfast.metrics.places import PAIRS, is_name


class Agreed:
    """The list, as one process knows it. What is on it stays; once it is full it is not looked at any more."""

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
