"""Daemon threads for plain functions: as many as run at a time, and no more."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Piece = tuple[Callable[[], None], Callable[[], None]]
"""What a thread does, and what it does when it is free again for another."""


class Threads:
    """Threads that are started when they are needed, and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._started = 0
        self._free = 0

    def submit(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        """Run something in a free thread, or in one more; `then` is called there once the thread counts as free.

        Raises RuntimeError where the process cannot have another thread.
        """
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                name = f"standfast-background-{self._started + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._started += 1
        self._pieces.put((run, then))

    def close(self) -> None:
        """Let each thread end when it is free."""
        with self._lock:
            started, self._started, self._free = self._started, 0, 0
        for _ in range(started):
            self._pieces.put(None)

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            run, then = piece
            del piece
            run()
            with self._lock:
                self._free += 1
            then()
            del run, then  # nothing of the work is kept while there is nothing to do
