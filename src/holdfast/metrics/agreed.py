"""Which pairs of a queue and a task are told by name, as all who count in one folder agree: the first so many.

A list that only grows, a pair a line. Each line comes by one write at the end of the file, so those who write at
the same time see the same order, and who came too late. Nobody waits for anybody.
"""

import os
from pathlib import Path

import msgspec

from holdfast.metrics.cells import Name
from holdfast.metrics.ownfiles import NEW, read_own
from holdfast.metrics.places import PAIRS


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
                    self._append(name)
                    self._read()
        except OSError:
            return False
        return name in self._known

    def _append(self, name: Name) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | NEW, 0o600)
        try:
            os.write(file, msgspec.json.encode(name) + b"\n")
        finally:
            os.close(file)

    def _read(self) -> None:
        """Learn the first lines; what a full disk has cut short is no line, whatever follows it."""
        for line in (read_own(self._path) or b"").split(b"\n")[:-1]:
            if len(self._known) >= PAIRS:
                break
            try:
                self._known[msgspec.json.decode(line, type=Name)] = None
            except msgspec.DecodeError:
                continue
