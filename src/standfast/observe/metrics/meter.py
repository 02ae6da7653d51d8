"""Counts what one process does, for metrics.

Attempts end on one thread, that of the worker's event loop, and `MeteredTally` counts them. All else may come from
any thread, under a lock.
"""

import logging
import os
import threading
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from standfast import events as event
from standfast.model.clock import Clock
from standfast.model.job import NewJob, Verdict
from standfast.observe.figures.counts import (
    COLUMN_OF,
    LONGEST_LAG,
    LONGEST_RUN,
    MICROS,
    PAIRS,
    UNNAMED,
    Count,
    Ended,
    Named,
    Pair,
    Tally,
)
from standfast.observe.figures.counts import LAG as LAG_OF_FIGURES
from standfast.observe.figures.counts import RUN as RUN_OF_FIGURES
from standfast.observe.figures.histogram import BUCKETS
from standfast.observe.figures.histogram import LAST as LAST_OF_FIGURES
from standfast.observe.metrics import cells as places
from standfast.observe.metrics.cells import (
    CALL_MICROS,
    ENQUEUED,
    FAILED,
    FENCED,
    FULL,
    LAG_MICROS,
    LOST,
    RUN_MICROS,
    STALE,
    TOOK,
    Cells,
    Name,
    bucket_of,
)
from standfast.stores.verb import Verb

log = logging.getLogger(__name__)

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
        self._other = self._add(places.OTHER_JOBS)
        self._other_verb = self._add((places.CALLS, places.OTHER))
        self._shown: dict[Name, int] = {places.OTHER_JOBS: self._other}
        self._has_failed = False
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
            values[row + CALL_MICROS] += int(seconds * 1e6)
            values[row + TOOK + bucket_of(seconds * 1e4)] += 1
            if failed:
                values[row + FAILED] += 1
            if stale:
                values[row + STALE] += stale

    def observe(self, verb: Verb[Any], answer: Any, seconds: float, error: BaseException | None) -> None:
        """Count a call of a store. If that fails the caller still gets the store's answer, and the log says it once."""
        try:
            stale = answer.count(_STALE) if error is None and verb.name in FENCED else 0
            self.called(verb.name, seconds, failed=error is not None, stale=stale)
            if error is None and verb.brings:
                self.enqueued(_accepted(verb, answer))
        except Exception as failure:  # noqa: BLE001 - the caller has to hear what the store said
            if not self._has_failed:
                self._has_failed = True
                log.warning(
                    "metrics: some calls of the store are not counted: %s: %s", type(failure).__name__, failure
                )

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
                    values[loose + places.BLOCKED] += told.count
                    values[loose + places.BLOCKED_MICROS] += int(told.seconds * 1e6)
                case event.StoreAway():
                    values[loose + places.OUTAGES] += 1
                case _:
                    values[loose + places.EVENTS.index(_OF_WORKERS[type(told)])] += 1

    def row_of(self, queue: str, task: str) -> int:
        """Return the row of a pair, one of its own while there is room. What has none is not remembered."""
        with self._lock:
            name = (places.JOBS, queue[: places.LONGEST], task[: places.LONGEST])
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
        row = self._cells.add_row((places.CALLS, verb[: places.LONGEST]))
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


# This is asked about every job, so it does little. It counts in lists, and writes to the cells of a pair once for each
# batch of answers: a cell costs thrice as much.

_STALE = Verdict.STALE
_BOTH = {move: (place, places.OUTCOME_OF[move]) for move, place in COLUMN_OF.items()}
_WIDER = tuple(min(bucket + 3 >> 2, places.LAST) for bucket in range(BUCKETS))
"""The bucket of metrics for each of those of figures, of which it has four."""
_RUN_AT = tuple(places.RUN + bucket for bucket in _WIDER)
_LAG_AT = tuple(places.LAG + bucket for bucket in _WIDER)


class MeteredTally(Tally):
    """Figures of one worker whose attempts are counted for metrics as well, in the cells of its meter.

    `count` does what that of `Tally` does, and what metrics need beside it: to do it apart costs twice as much.
    """

    def __init__(self, meter: Meter, clock: Clock, named: Named = UNNAMED) -> None:
        super().__init__(clock, named)
        self._meter = meter
        self._rows: dict[int, Count] = {}
        self._pairs: dict[Pair, tuple[int, Count]] = {}

    def count(self, batch: Iterable[Ended], verdicts: Iterable[Verdict]) -> None:  # noqa: C901 - calls cost every job
        """Count what the store has answered; of what was refused only that it was."""
        counts = self._current if self._clock.boot() < self._until else self._next_minute()
        both, last, run_at, lag_at = _BOTH, LAST_OF_FIGURES, _RUN_AT, _LAG_AT
        touched: dict[Pair, tuple[Count, Count]] = {}
        for ended, verdict in zip(batch, verdicts, strict=True):
            claim, ending, seconds = ended.claim, ended.ending, ended.seconds
            pair = (claim.queue, claim.task)
            if verdict is _STALE:
                self._add(pair, LOST)
                continue
            count, cells = touched.get(pair) or touched.setdefault(
                pair, (counts.get(pair) or self._begin(counts, pair), self._cells_of(pair)[1])
            )
            place, outcome = both[ending.move]
            count[place] += 1
            cells[outcome] += 1
            if seconds > 0:  # it has run
                exact = seconds * 1e6
                micros = int(exact)
                count[MICROS] += micros
                cells[RUN_MICROS] += micros
                if micros > count[LONGEST_RUN]:  # noqa: PLR1730 - max() and min() are calls, and cost every job
                    count[LONGEST_RUN] = micros
                bucket = int(exact * seconds).bit_length()
                if bucket > last:  # noqa: PLR1730
                    bucket = last
                count[RUN_OF_FIGURES + bucket] += 1
                cells[run_at[bucket]] += 1
                if ending.started_at is not None:
                    late = (ending.started_at - claim.run_at).total_seconds()
                    bucket = 0
                    if late > 0:
                        exact = late * 1e6
                        micros = int(exact)
                        cells[LAG_MICROS] += micros
                        if micros > count[LONGEST_LAG]:  # noqa: PLR1730
                            count[LONGEST_LAG] = micros
                        bucket = int(exact * late).bit_length()
                        if bucket > last:  # noqa: PLR1730
                            bucket = last
                    count[LAG_OF_FIGURES + bucket] += 1
                    cells[lag_at[bucket]] += 1
        for pair in touched:
            self._write(*self._cells_of(pair))

    def count_dead(self, queue: str, task: str) -> None:
        """Count a job that died with its worker."""
        super().count_dead(queue, task)
        self._add((queue, task), places.DEAD)

    def _add(self, pair: Pair, place: int) -> None:
        """Count one that comes alone."""
        row, cells = self._cells_of(pair)
        cells[place] += 1
        self._write(row, cells)

    def _write(self, row: int, cells: Count) -> None:
        cells[LAG_MICROS] = min(cells[LAG_MICROS], FULL)  # a job may be due since the year 1
        self._meter.values[row : row + ENQUEUED] = array("Q", cells)

    def _cells_of(self, pair: Pair) -> tuple[int, Count]:
        """Return where a pair is counted: its row, which many may share, and the list that stands for it."""
        known = self._pairs.get(pair)
        if known is None:
            row = self._meter.row_of(*pair)
            known = row, self._rows.setdefault(row, [0] * ENQUEUED)
            if len(self._pairs) < 2 * PAIRS:  # others are not remembered: there is no end of them
                self._pairs[pair] = known
        return known


def _accepted(verb: Verb[Any], answer: Any) -> Iterator[NewJob]:
    """Yield the jobs that a verb has brought: those of `enqueue` that were stored, or those of the changes made."""
    if verb.name == "enqueue":
        yield from (job for job in verb.brings if job.id not in answer)
    else:
        for change in compress(verb.brings, answer):
            yield from change.jobs
