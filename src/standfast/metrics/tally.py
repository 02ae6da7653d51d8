"""Counts how attempts end, for figures and metrics in one go. It is asked about every job, so it does little.

It counts in lists, and writes to the cells of a pair once for each batch of answers: a cell costs thrice as much.
"""

from array import array
from collections.abc import Iterable

from standfast.clock import Clock
from standfast.core.job import Verdict
from standfast.figures.buckets import BUCKETS
from standfast.figures.buckets import LAST as LAST_OF_FIGURES
from standfast.figures.counting import PLACES, Ended, Tally
from standfast.figures.named import UNNAMED, Named
from standfast.figures.rows import LAG as LAG_OF_FIGURES
from standfast.figures.rows import LONGEST_LAG, LONGEST_RUN, MICROS, Count, Pair
from standfast.figures.rows import RUN as RUN_OF_FIGURES
from standfast.metrics.cells import FULL
from standfast.metrics.meter import Meter
from standfast.metrics.places import DEAD, ENQUEUED, LAG, LAG_MICROS, LAST, LOST, OUTCOME_OF, PAIRS, RUN, RUN_MICROS

_STALE = Verdict.STALE
_BOTH = {move: (place, OUTCOME_OF[move]) for move, place in PLACES.items()}
_WIDER = tuple(min(bucket + 3 >> 2, LAST) for bucket in range(BUCKETS))
"""The bucket of metrics for each of those of figures, of which it has four."""
_RUN_AT = tuple(RUN + bucket for bucket in _WIDER)
_LAG_AT = tuple(LAG + bucket for bucket in _WIDER)


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
        self._add((queue, task), DEAD)

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
