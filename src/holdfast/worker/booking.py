"""Which of the jobs held for later would find no place here at their time, so that others had better have them."""

import heapq
from collections.abc import Sequence

PATIENCE = 0.02
"""Seconds that a job may have to wait for a place, beyond its time."""

UNKNOWN = 0.1
"""Seconds that a job is expected to last at least, where nothing is known of it."""


def crowded_out(due_in: Sequence[float], free: int, busy: int, lasts: float | None) -> list[int]:
    """Return the positions of those that would wait for too long, of jobs due in so many seconds, in their order.

    Every job is expected to last for the same time; those that run, to end one after the other within it. Where it
    is not known how long they last, only those are crowded out that are due at the same time as too many others.
    """
    lasts = UNKNOWN if lasts is None else lasts
    places = [0.0] * free + [lasts * (position + 1) / (busy + 1) for position in range(busy)]
    heapq.heapify(places)
    out = []
    for position, due in enumerate(due_in):
        starts = max(due, places[0])
        if starts - due > PATIENCE:
            out.append(position)
        else:
            heapq.heapreplace(places, starts + lasts)
    return out
