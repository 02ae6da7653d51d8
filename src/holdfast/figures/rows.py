"""What is counted of a queue and a task, in memory and as it is written: whole numbers, so that sums are exact."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from holdfast.figures.buckets import BUCKETS, LAST, ends_at, lengthen, shorten

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
LONGEST_RUN = LAG + BUCKETS
LONGEST_LAG = LONGEST_RUN + 1
"""Places of the longest run and the longest lag, in microseconds: of several counts the longest counts."""
PLACES = LONGEST_LAG + 1

Count = list[int]
"""What was counted of one pair, by place."""

Counts = dict[Pair, Count]


Number = Annotated[int, msgspec.Meta(ge=0, le=2**56)]
"""A number that makes sense: microseconds since the year 1 do; a thousand of the largest are no span too large.

A row with another one was written by something damaged or hostile, and is not read.
"""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A count as it is written; `micros` is for how many microseconds handlers ran in all.

    `longest_run` and `longest_lag` are microseconds, too; 0 where a release wrote it that does not keep them.
    """

    queue: str
    task: str
    completed: Number
    failed: Number
    dead: Number
    cancelled: Number
    given_back: Number
    micros: Number
    run: tuple[Number, ...]
    lag: tuple[Number, ...]
    longest_run: Number = 0
    longest_lag: Number = 0


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
        count[LONGEST_RUN] = max(count[LONGEST_RUN], row.longest_run or _at_most(row.run))
        count[LONGEST_LAG] = max(count[LONGEST_LAG], row.longest_lag or _at_most(row.lag))


def _at_most(written: tuple[int, ...]) -> int:
    """Return the microseconds that nothing in a histogram exceeds, as far as it tells."""
    return int(1000 * ends_at(min(max(written[0] + len(written) - 2, 0), LAST))) if written else 0


def add_count(count: Count, other: Count) -> None:
    """Add to a count what another one has."""
    longest = [max(pair) for pair in zip(count[LONGEST_RUN:], other[LONGEST_RUN:], strict=True)]
    count[:] = [one + more for one, more in zip(count, other, strict=True)]
    count[LONGEST_RUN:] = longest


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
            add_count(other, counts[pair])
    if any(other):
        yield _row(OTHER, other)


def _row(pair: Pair, count: Count) -> Row:
    completed, failed, dead, cancelled, given_back, micros = count[:RUN]
    run, lag = shorten(count[RUN:LAG]), shorten(count[LAG:LONGEST_RUN])
    longest = count[LONGEST_RUN:]
    return Row(*pair, completed, failed, dead, cancelled, given_back, micros, run, lag, *longest)
