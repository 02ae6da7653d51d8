"""What is counted of a queue and a task, in memory and as it is written: whole numbers, so that sums are exact."""

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.figures.buckets import BUCKETS, lengthen, shorten

Pair = tuple[str, str]
"""A queue and a task."""

OTHER: Pair = ("", "")
"""All pairs that there was no room for."""

PAIRS = 200
"""So many pairs a record tells apart."""

ROWS_LIMIT = 48 * 1024
"""Bytes of the rows of one record: where they are more, fewer pairs are told apart."""

COMPLETED, FAILED, DEAD, CANCELLED, GIVEN_BACK, MICROS, RUN = range(7)
"""Places in a count. From RUN on is the histogram of how long runs took, and from LAG on of how late they began."""
LAG = RUN + BUCKETS
PLACES = LAG + BUCKETS

Count = list[int]
"""What was counted of one pair, by place."""

Counts = dict[Pair, Count]


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A count as it is written; `micros` is for how many microseconds handlers ran in all."""

    queue: str
    task: str
    completed: int
    failed: int
    dead: int
    cancelled: int
    given_back: int
    micros: int
    run: tuple[int, ...]
    lag: tuple[int, ...]


def new_count() -> Count:
    """Return a count of nothing."""
    return [0] * PLACES


def add_rows(counts: Counts, rows: Iterable[Row]) -> None:
    """Add to counts what rows say."""
    for row in rows:
        count = counts.get((row.queue, row.task)) or counts.setdefault((row.queue, row.task), new_count())
        ends = (row.completed, row.failed, row.dead, row.cancelled, row.given_back, row.micros)
        for place, number in enumerate(ends):
            count[place] += number
        for histogram, begin in ((row.run, RUN), (row.lag, LAG)):
            for bucket, number in lengthen(histogram):
                count[begin + bucket] += number


def to_rows(counts: Mapping[Pair, Count]) -> tuple[Row, ...]:
    """Return counts as they are written: the busiest pairs, and the rest as one."""
    by_work = sorted(counts, key=lambda pair: (pair == OTHER, -sum(counts[pair][:MICROS]), pair))
    kept = min(PAIRS, len(by_work))
    while True:
        rows = tuple(_rows(counts, by_work, kept))
        if kept <= 1 or len(msgspec.json.encode(rows)) <= ROWS_LIMIT:
            return rows
        kept //= 2


def _rows(counts: Mapping[Pair, Count], pairs: list[Pair], kept: int) -> Iterable[Row]:
    other = new_count()
    for place, pair in enumerate(pairs):
        if place < kept and pair != OTHER:
            yield _row(pair, counts[pair])
        else:
            other = [one + more for one, more in zip(other, counts[pair], strict=True)]
    if any(other):
        yield _row(OTHER, other)


def _row(pair: Pair, count: Count) -> Row:
    completed, failed, dead, cancelled, given_back, micros = count[:RUN]
    run, lag = shorten(count[RUN:LAG]), shorten(count[LAG:])
    return Row(*pair, completed, failed, dead, cancelled, given_back, micros, run, lag)
