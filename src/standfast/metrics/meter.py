"""Counts what one process does, for metrics.

Attempts end on one thread, that of the worker's event loop, and are counted by `tally.py`. All else may come from
any thread, under a lock.
"""

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from standfast import events as event
from standfast.core.job import NewJob
from standfast.figures.rows import Pair
from standfast.metrics.cells import Cells, Name
from standfast.metrics.places import (
    BLOCKED,
    BLOCKED_MICROS,
    CALLS,
    ENQUEUED,
    EVENTS,
    FAILED,
    JOBS,
    LONGEST,
    MICROS,
    OTHER,
    OTHER_JOBS,
    OUTAGES,
    PAIRS,
    STALE,
    TOOK,
    bucket_of,
)

_OF_WORKERS: dict[type[event.Event], str] = {
    event.WorkerReady: "ready",
    event.WorkerRecycling: "recycled",
    event.WorkerStopped: "stopped",
    event.WorkerCrashed: "crashed",
    event.WorkerHung: "hung",
    event.WorkerLost: "lost",
    event.WorkerDrained: "drained",
}
_HEARD = {*_OF_WORKERS, event.LoopBlocked, event.StoreAway}


class Meter:
    """What one process has counted since it began, in a file that its supervisor reads."""

    def __init__(self, path: Path) -> None:
        self._cells = Cells(path)
        self._lock = threading.RLock()
        self._pairs: dict[Pair, int] = {}
        self._verbs: dict[str, int] = {}
        self._other = self._add(OTHER_JOBS)
        self._other_verb = self._add((CALLS, OTHER))
        self._shown: dict[Name, int] = {OTHER_JOBS: self._other}
        _ALL.add(self)

    @property
    def path(self) -> Path:
        """Where its file is."""
        return self._cells.path

    def know(self, pairs: Sequence[Pair]) -> None:
        """Begin to count queues and tasks that there will be, at zero; not of very many, which may never come."""
        for queue, task in pairs if len(pairs) <= PAIRS // 2 else ():
            self.row_of(queue, task)

    def enqueued(self, jobs: Iterable[NewJob]) -> None:
        """Count jobs that the store has accepted."""
        with self._lock:
            for (queue, task), number in Counter((job.queue, job.task) for job in jobs).items():
                row = self._pairs.get((queue, task)) or self.row_of(queue, task)
                self._cells.values[row + ENQUEUED] += number

    def called(self, verb: str, seconds: float, *, failed: bool = False, stale: int = 0) -> None:
        """Count a call of the store: for how long it took, whether it failed, how many writes it refused."""
        with self._lock:
            values = self._cells.values
            row = self._verbs.get(verb) or self._verb(verb)
            values[row + MICROS] += int(seconds * 1e6)
            values[row + TOOK + bucket_of(seconds * 1e4)] += 1
            if failed:
                values[row + FAILED] += 1
            if stale:
                values[row + STALE] += stale

    @property
    def values(self) -> memoryview:
        """Its cells."""
        return self._cells.values

    def hears(self, kind: type[event.Event]) -> bool:
        """Tell whether a kind of event is counted."""
        return kind in _HEARD

    def hear(self, told: event.Event) -> None:
        """Count an event: what becomes of workers, and what keeps them."""
        with self._lock:
            loose, values = self._cells.loose, self._cells.values
            match told:
                case event.LoopBlocked():
                    values[loose + BLOCKED] += told.count
                    values[loose + BLOCKED_MICROS] += int(told.seconds * 1e6)
                case event.StoreAway():
                    values[loose + OUTAGES] += 1
                case _:
                    values[loose + EVENTS.index(_OF_WORKERS[type(told)])] += 1

    def row_of(self, queue: str, task: str) -> int:
        """Return the row of a pair, one of its own while there is room. What has none is not remembered."""
        with self._lock:
            name = (JOBS, queue[:LONGEST], task[:LONGEST])
            row = self._shown.get(name)
            if row is None:
                row = self._cells.add_row(name) if len(self._shown) <= PAIRS and self._tells(name) else None
                if row is None:
                    return self._other
                self._shown[name] = row
            if len(self._pairs) < 2 * PAIRS:
                self._pairs[queue, task] = row
            return row

    def _verb(self, verb: str) -> int:
        row = self._cells.add_row((CALLS, verb[:LONGEST]))
        if row is None:
            return self._other_verb
        self._verbs[verb] = row
        return row

    def _add(self, name: Name) -> int:
        row = self._cells.add_row(name)
        assert row is not None  # the file is new
        return row

    def _tells(self, name: Name) -> bool:  # noqa: ARG002 - of this process alone there is nobody to agree with
        """Tell whether a pair for which there is room is told by name."""
        return True

    def close(self) -> None:
        """Let go of the file. Who goes on to tell is heard, and nothing comes of it."""
        with self._lock:
            self._cells.close()

    def _forget(self) -> None:
        """Leave the file to the parent in a forked process: of two who count in it each would undo the other."""
        self._lock = threading.RLock()  # a thread of the parent may have held it
        self.close()


_ALL: "weakref.WeakSet[Meter]" = weakref.WeakSet()
"""The meters of this process."""


def _forget_all() -> None:
    for meter in list(_ALL):
        meter._forget()  # noqa: SLF001 - of the same module


os.register_at_fork(after_in_child=_forget_all)
