"""For how long a thread that could run has waited for a processor: what a busy machine costs it."""

import os
import threading
from contextlib import suppress
from pathlib import Path

_NANO = 1_000_000_000


class Waits:
    """Tells, in any thread, for how many seconds the one that made it has waited; 0 where nobody knows."""

    def __init__(self) -> None:
        file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._opened: int | None = None
        with suppress(OSError):
            self._opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> float:
        """Return that many seconds."""
        opened = self._opened
        if opened is None:
            return 0.0
        try:
            return int(os.pread(opened, 100, 0).split()[1]) / _NANO
        except (OSError, IndexError, ValueError):
            return 0.0

    def close(self) -> None:
        """Let go of the file: whoever watches may end long before the process does."""
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)
