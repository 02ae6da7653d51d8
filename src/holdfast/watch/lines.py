"""Lines written by a thread of their own, so that a stalled terminal or pipe stalls nothing else.

A reader that stops reading (Ctrl-S, a stuck log collector) must not stop the heart of a supervisor. What does not
fit is dropped and counted, and the count is said when lines flow again.
"""

import queue
import threading
import time
from contextlib import suppress
from typing import IO

MOST_WAITING = 10_000
LOOK_EVERY = 0.005


class LineWriter:
    """Writes lines in order, later; never blocks its callers."""

    def __init__(self, file: IO[str], most_waiting: int = MOST_WAITING) -> None:
        self._file = file
        self._lines: queue.Queue[str] = queue.Queue(most_waiting)
        self._dropped = 0
        threading.Thread(target=self._run, name="holdfast-console", daemon=True).start()

    def write(self, line: str) -> None:
        """Write a line soon; drop it if too many wait."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def flush(self, seconds: float) -> None:
        """Wait until all lines are written, but no longer than this."""
        give_up_at = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                line = f"({dropped} lines were dropped: nobody read them)\n{line}"
            with suppress(OSError, ValueError):  # a terminal that is gone hears nothing, and need not
                self._file.write(line)
                self._file.flush()
            self._lines.task_done()
