"""Lines written by a thread of their own, so that a stalled terminal or pipe stalls nothing else.

A reader that stops reading (Ctrl-S, a stuck log collector) must not stop the heart of a supervisor. What does not
fit is dropped and counted, and the count is said when lines flow again.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

MOST_WAITING = 10_000
LOOK_EVERY = 0.005
TICK_EVERY = 1.0


class LineWriter:
    """Writes lines in order, later; never blocks its callers. About every second its thread calls `tick`."""

    def __init__(self, file: IO[str], dropped: Callable[[int], str], most_waiting: int = MOST_WAITING) -> None:
        self._file = file
        self._lines: queue.Queue[str] = queue.Queue(most_waiting)
        self._dropped = 0
        self._line_of_dropped = dropped
        self.tick: Callable[[], None] = lambda: None
        self._process = os.getpid()
        threading.Thread(target=self._run, name="standfast-console", daemon=True).start()

    def write(self, line: str) -> None:
        """Write a line soon; drop it if too many wait."""
        if os.getpid() != self._process:  # a process that a handler has forked has no thread of ours
            self._put_out(line)
            return
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
        ticked_at = time.monotonic()
        while True:
            with suppress(queue.Empty):
                self._write_next()
            if time.monotonic() - ticked_at >= TICK_EVERY:
                ticked_at = time.monotonic()
                self.tick()

    def _write_next(self) -> None:
        line = self._lines.get(timeout=TICK_EVERY)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            line = self._line_of_dropped(dropped) + line
        self._put_out(line)
        self._lines.task_done()

    def _put_out(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone hears nothing, and need not
            self._file.write(line)
            self._file.flush()
