"""Adds up what the processes of one supervisor have counted, those that have ended included: no counter goes back.

watched: its process may count on ─► folded: what it counted is kept here, and its file may go
"""

import threading
from collections.abc import Iterator
from pathlib import Path

from standfast.observe.figures.counts import PAIRS
from standfast.observe.metrics import families as family
from standfast.observe.metrics.cells import (
    BLOCKED,
    BLOCKED_MICROS,
    BUCKETS,
    CALL_ENDS,
    CALL_MICROS,
    ENQUEUED,
    EVENTS,
    FAILED,
    FENCED,
    JOB_ENDS,
    JOBS,
    LAG,
    LAG_MICROS,
    LOOSE,
    LOST,
    OTHER,
    OTHER_JOBS,
    OUTAGES,
    OUTCOMES,
    RUN,
    RUN_MICROS,
    STALE,
    TOOK,
    WIDTH,
    Counted,
    Name,
    is_name,
    read_cells,
)
from standfast.observe.metrics.families import Sample, histogram

_MILLION = 1_000_000


class Sums:
    """What was counted, added up."""

    def __init__(self, known: dict[Name, None]) -> None:
        self.loose = [0] * LOOSE
        self.rows: dict[Name, list[int]] = {}
        self._known = known

    def add(self, counted: Counted) -> None:
        """Add what one process has counted."""
        self.loose = [one + more for one, more in zip(self.loose, counted.loose, strict=True)]
        for name, cells in counted.rows.items():
            if not is_name(name) or (OTHER in name and not any(cells)):
                continue
            sums = self.rows.setdefault(self._told_as(name), [0] * WIDTH)
            sums[:] = [one + more for one, more in zip(sums, cells, strict=True)]

    def _told_as(self, name: Name) -> Name:
        """Return the name of a pair, or that of all others where there are too many; for ever the same."""
        if name[0] != JOBS or name == OTHER_JOBS:
            return name
        if name not in self._known:
            if len(self._known) >= PAIRS:
                return OTHER_JOBS
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
            sums.add(
                Counted(tuple(self._ended.loose), {name: tuple(row) for name, row in self._ended.rows.items()})
            )
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
        if name[0] == JOBS:
            yield from _of_jobs(name[1:], row)
        else:
            yield from _of_calls(name[1:], row)
    for place, told in enumerate(EVENTS):
        yield Sample(family.WORKER_EVENTS.name, (told,), sums.loose[place])
    yield Sample(family.LOOP_BLOCKED.name, (), sums.loose[BLOCKED])
    yield Sample(family.LOOP_BLOCKED_SECONDS.name, (), sums.loose[BLOCKED_MICROS] / _MILLION)
    yield Sample(family.OUTAGES.name, (), sums.loose[OUTAGES])


def _of_jobs(labels: Name, row: list[int]) -> Iterator[Sample]:
    """Yield the counters, zeros included: of one that is there before it grows, `increase` sees the first step."""
    for place, outcome in enumerate(OUTCOMES):
        yield Sample(family.ATTEMPTS.name, (*labels, outcome), row[place])
    yield Sample(family.ENQUEUED.name, labels, row[ENQUEUED])
    yield Sample(family.CLAIMS_LOST.name, labels, row[LOST])
    for place, micros, spans in ((RUN, RUN_MICROS, family.RUN_SECONDS), (LAG, LAG_MICROS, family.LAG_SECONDS)):
        counts = row[place : place + BUCKETS]
        if any(counts):
            yield from histogram(spans, labels, JOB_ENDS, counts, row[micros] / _MILLION)


def _of_calls(labels: Name, row: list[int]) -> Iterator[Sample]:
    yield from histogram(
        family.CALL_SECONDS, labels, CALL_ENDS, row[TOOK : TOOK + BUCKETS], row[CALL_MICROS] / _MILLION
    )
    yield Sample(family.CALLS_FAILED.name, labels, row[FAILED])
    if labels[0] in FENCED:
        yield Sample(family.STALE_WRITES.name, labels, row[STALE])
