"""Adds up what the processes of one supervisor have counted, those that have ended included: no counter goes back.

watched: its process may count on ─► folded: what it counted is kept here, and its file may go
"""

import threading
from collections.abc import Iterator
from pathlib import Path

from standfast.observe.figures.counts import PAIRS
from standfast.observe.metrics import cells
from standfast.observe.metrics import families as family
from standfast.observe.metrics.cells import Counted, Name, is_name, read_cells
from standfast.observe.metrics.families import Sample, histogram

_MILLION = 1_000_000


class Sums:
    """What was counted, added up."""

    def __init__(self, known: dict[Name, None]) -> None:
        self.loose = [0] * cells.LOOSE
        self.rows: dict[Name, list[int]] = {}
        self._known = known

    def add(self, counted: "Counted | Sums") -> None:
        """Add what one process, or several, have counted."""
        self.loose = [one + more for one, more in zip(self.loose, counted.loose, strict=True)]
        for name, row in counted.rows.items():
            if not is_name(name) or (cells.OTHER in name and not any(row)):
                continue
            sums = self.rows.setdefault(self._told_as(name), [0] * cells.WIDTH)
            sums[:] = [one + more for one, more in zip(sums, row, strict=True)]

    def _told_as(self, name: Name) -> Name:
        """Return the name of a pair, or that of all others where there are too many; for ever the same."""
        if name[0] != cells.JOBS or name == cells.OTHER_JOBS:
            return name
        if name not in self._known:
            if len(self._known) >= PAIRS:
                return cells.OTHER_JOBS
            self._known[name] = None
        return name


class Totals:
    """The sums of one supervisor. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Name, None] = {}
        self._ended = Sums(self._known)
        self._watched: dict[Path, Counted] = {}

    def watch(self, file: Path) -> None:
        """Count with what a process writes to a file from now on."""
        with self._lock:
            self._watched[file] = Counted()

    def fold(self, file: Path) -> None:
        """Keep what a process has counted that has ended."""
        with self._lock:
            if file in self._watched:
                self._ended.add(self._read(file))
                del self._watched[file]

    def sums(self) -> Sums:
        """Return all that was counted up to now."""
        with self._lock:
            sums = Sums(self._known)
            sums.add(self._ended)
            for file in sorted(self._watched):
                sums.add(self._read(file))
            return sums

    def _read(self, file: Path) -> Counted:
        """Return what a file says, or said before where it cannot be read now: that is no reason to go back."""
        read = read_cells(file)
        if read.rows:  # whoever counts has some from the beginning
            self._watched[file] = read
        return self._watched[file]


def samples_of(sums: Sums) -> Iterator[Sample]:
    """Yield what was counted."""
    for name, row in sums.rows.items():
        if name[0] == cells.JOBS:
            yield from _of_jobs(name[1:], row)
        else:
            yield from _of_calls(name[1:], row)
    for place, told in enumerate(cells.EVENTS):
        yield Sample(family.WORKER_EVENTS.name, (told,), sums.loose[place])
    yield Sample(family.LOOP_BLOCKED.name, (), sums.loose[cells.BLOCKED])
    yield Sample(family.LOOP_BLOCKED_SECONDS.name, (), sums.loose[cells.BLOCKED_MICROS] / _MILLION)
    yield Sample(family.OUTAGES.name, (), sums.loose[cells.OUTAGES])


def _of_jobs(labels: Name, row: list[int]) -> Iterator[Sample]:
    """Yield the counters, zeros included: of one that is there before it grows, `increase` sees the first step."""
    for place, outcome in enumerate(cells.OUTCOMES):
        yield Sample(family.ATTEMPTS.name, (*labels, outcome), row[place])
    yield Sample(family.ENQUEUED.name, labels, row[cells.ENQUEUED])
    yield Sample(family.CLAIMS_LOST.name, labels, row[cells.LOST])
    run, lag = (cells.RUN, cells.RUN_MICROS, family.RUN_SECONDS), (cells.LAG, cells.LAG_MICROS, family.LAG_SECONDS)
    for place, micros, spans in (run, lag):
        counts = row[place : place + cells.BUCKETS]
        if any(counts):
            yield from histogram(spans, labels, cells.JOB_ENDS, counts, row[micros] / _MILLION)


def _of_calls(labels: Name, row: list[int]) -> Iterator[Sample]:
    counts, seconds = row[cells.TOOK : cells.TOOK + cells.BUCKETS], row[cells.CALL_MICROS] / _MILLION
    yield from histogram(family.CALL_SECONDS, labels, cells.CALL_ENDS, counts, seconds)
    yield Sample(family.CALLS_FAILED.name, labels, row[cells.FAILED])
    if labels[0] in cells.FENCED:
        yield Sample(family.STALE_WRITES.name, labels, row[cells.STALE])
