"""Turns at the interpreter: how long a thread of this process may keep it from the others.

By Python's own 5 ms a request waits that long for each job that computes, at each step that it takes.
"""

import sys


class ShorterTurns:
    """Shortens the turns of this process, and gives back what was there, unless somebody has set them since."""

    def __init__(self) -> None:
        self._before: float | None = None
        self._ours: float | None = None

    def begin(self, seconds: float | None) -> None:
        """Let a turn last no longer than this; None leaves it as it is, and so does one that is shorter already."""
        if seconds is None or self._ours is not None or sys.getswitchinterval() <= seconds:
            return
        self._before = sys.getswitchinterval()
        sys.setswitchinterval(seconds)
        self._ours = sys.getswitchinterval()

    def end(self) -> None:
        """Give back what was there before."""
        before, ours = self._before, self._ours
        self._before = self._ours = None
        if before is not None and sys.getswitchinterval() == ours:
            sys.setswitchinterval(before)
