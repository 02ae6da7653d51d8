"""What is counted of a queue and a task, in memory and as it is written: whole numbers, so that sums are exact."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Annotated

import msgspec

from standfast.figures.buckets import BUCKETS, LAST, ends_at, lengthen, shorten
from standfast.figures.named import UNNAMED, Named, Pair

__all__ = ["Pair"]

OTHER: Pair = ("", "")
"""All pairs that there was no room for."""

PAIRS = 200
"""So many pairs a record tells apart, and besides those that a rule or an objective is about."""

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


def cut(counts: Mapping[Pair, Count], named: Named, kept: int) -> Counts:
    """Return counts in which so many pairs have their own, trouble first; of the others what is named is kept.

    Those that died come before those that failed, and these before those that only worked: no limit hides trouble.
    """
    rests = {pair: named.rest_of(pair) for pair in counts}
    ranked = sorted((pair for pair in counts if rests[pair] != pair), key=lambda pair: _rank(pair, counts[pair]))
    of_rests: dict[Pair, list[Count]] = {rest: [counts[rest]] for rest in counts if rests[rest] == rest}
    for pair in ranked[kept:]:
        of_rests.setdefault(rests[pair], []).append(counts[pair])
    own = {pair: counts[pair] for pair in ranked[:kept]}
    return own | {rest: _sum(of_rests[rest]) for rest in sorted(of_rests, reverse=True)}


def _rank(pair: Pair, count: Count) -> tuple[int, int, int, Pair]:
    return -count[DEAD], -count[FAILED], -sum(count[:MICROS]), pair


def _sum(counts: list[Count]) -> Count:
    columns = list(zip(*counts, strict=True))
    return [*map(sum, columns[:LONGEST_RUN]), *map(max, columns[LONGEST_RUN:])]


def to_rows(counts: Mapping[Pair, Count], named: Named = UNNAMED) -> tuple[Row, ...]:
    """Return counts as they are written: as many pairs as fit, and the rest as one, or under what is named."""
    rows = _rows(cut(counts, named, PAIRS))
    if _size(rows) <= ROWS_LIMIT:
        return rows
    room = ROWS_LIMIT - _size(_rows(cut(counts, named, 0)))  # the rest takes no more than if it were all
    if room < 0 and named != UNNAMED:
        return to_rows(counts)  # so many are named that they are not to be told apart, either
    sizes = accumulate(_size((row,)) for row in rows)
    return _rows(cut(counts, named, bisect_right(list(sizes), room)))


def _size(rows: tuple[Row, ...]) -> int:
    return len(msgspec.json.encode(rows))


def _rows(counts: Counts) -> tuple[Row, ...]:
    return tuple(_row(pair, count) for pair, count in counts.items() if any(count))


def _row(pair: Pair, count: Count) -> Row:
    completed, failed, dead, cancelled, given_back, micros = count[:RUN]
    run, lag = shorten(count[RUN:LAG]), shorten(count[LAG:LONGEST_RUN])
    longest = count[LONGEST_RUN:]
    return Row(*pair, completed, failed, dead, cancelled, given_back, micros, run, lag, *longest)
