"""Which of the jobs held for later would find no place here at their time, so that others had better have them."""

import heapq
from collections.abc import Sequence

PATIENCE = 0.02
"""Seconds that a job may have to wait for a place, beyond its time."""

UNKNOWN = 0.1
"""Seconds that a job is expected to last at least, where nothing is known of it."""


def outlasts(ages: Sequence[float], lasts: float) -> list[float]:
    """Return for how many seconds more than others jobs will last that have run for so long.

    None (0) as a rule; but one that has run for longer than jobs last is of another kind: as long again.
    """
    return [age if age > lasts else 0.0 for age in ages]


def crowded_out(due_in: Sequence[float], free: int, ages: Sequence[float], lasts: float | None) -> list[int]:
    """Return the positions of those that would wait for too long, of jobs due in so many seconds, in their order.

    Every job is expected to last for the same time; those that run, to end one after the other within it, but for
    those that outlast it. Where it is not known how long they last, only those are crowded out that are due at the
    same time as too many others.
    """
    lasts = UNKNOWN if lasts is None else lasts
    within = [lasts * (position + 1) / (len(ages) + 1) for position in range(len(ages))]
    places = [0.0] * free + [more or end for more, end in zip(outlasts(ages, lasts), within, strict=True)]
    heapq.heapify(places)
    out = []
    for position, due in enumerate(due_in):
        starts = max(due, places[0])
        if starts - due > PATIENCE:
            out.append(position)
        else:
            heapq.heapreplace(places, starts + lasts)
    return out
