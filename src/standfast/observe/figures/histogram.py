"""Histograms of spans of time: buckets whose bounds grow by the square root of two, from a millisecond to a day."""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

BUCKETS = 54
"""The first is for less than a millisecond; number n ends at 2 ** (n / 2) milliseconds; the last has no end."""

LAST = BUCKETS - 1

_MILLISECOND = timedelta(milliseconds=1)


def ends_at(bucket: int) -> float:
    """Return where a bucket ends, in milliseconds."""
    return float(2 ** (bucket / 2))


def percentile(histogram: Sequence[int], part: float, longest: timedelta = timedelta()) -> timedelta | None:
    """Return the span that this part of all did not exceed, 0.95 for p95; None where nothing was counted.

    Within a bucket spans are taken to grow evenly, to its end, or to the `longest` of all where that is known: the
    true one is in the same bucket, so at most 42 % away, and nothing is said that is longer than the longest.
    """
    total = sum(histogram)
    if not total:
        return None
    wanted, below = min(max(math.ceil(part * total), 1), total), 0
    for bucket, count in enumerate(histogram):
        if below + count >= wanted:
            begin = ends_at(bucket - 1) if bucket else 0.0
            is_last = below + count == total
            end = max(longest / _MILLISECOND, begin) if is_last and longest else ends_at(bucket)
            return timedelta(milliseconds=begin + (end - begin) * (wanted - below) / count)
        below += count
    raise AssertionError("the buckets are fewer than their sum")


def shorten(histogram: Sequence[int]) -> tuple[int, ...]:
    """Return a histogram as it is written: the first bucket in use, and the counts from there on."""
    used = [bucket for bucket, count in enumerate(histogram) if count]
    return (used[0], *histogram[used[0] : used[-1] + 1]) if used else ()


def lengthen(written: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Return the buckets and counts of what `shorten` wrote; what is beyond the last bucket counts there."""
    first, *counts = written or (0,)
    if 0 <= first <= BUCKETS - len(counts):
        return enumerate(counts, first)
    return ((min(max(first + place, 0), LAST), count) for place, count in enumerate(counts))
