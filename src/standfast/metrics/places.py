"""What is counted where in a row, and in which buckets. Pure.

Files with such rows may outlive a release: who gives a place another meaning gives `cells.VERSION` another number.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from standfast.core.states import Move
from standfast.figures.buckets import ends_at
from standfast.figures.rows import PAIRS

__all__ = ["PAIRS"]

JOBS, CALLS = "jobs", "calls"
"""The first word of a row's name: `jobs` with a queue and a task, `calls` with a verb."""

OTHER = "_other_"
"""Stands for all names that there was no room for."""
OTHER_JOBS = (JOBS, OTHER, OTHER)
"""The row of all pairs that there was no room for, and of a pair that is called so itself."""

_LENGTHS = {JOBS: 3, CALLS: 2}


def is_name(name: Sequence[str]) -> bool:
    """Tell whether a row may be called so; what is not was written by something damaged."""
    return bool(name) and _LENGTHS.get(name[0]) == len(name)


LONGEST = 120
"""Characters of a name that are told."""

OUTCOMES = ("completed", "retried", "dead", "cancelled", "released", "snoozed", "blocked")
OUTCOME_OF: Mapping[Move, int] = MappingProxyType(
    {
        Move.COMPLETE: 0,
        Move.RETRY: 1,
        Move.DIE: 2,
        Move.CANCEL: 3,
        Move.RELEASE: 4,
        Move.SNOOZE: 5,
        Move.BLOCK: 6,
    }
)
"""How an attempt ended, by place."""
DEAD = OUTCOME_OF[Move.DIE]

BUCKETS = 13
"""Four times as wide each as the one before; the last has no end."""
LAST = BUCKETS - 1

LOST = len(OUTCOMES)
RUN_MICROS = LOST + 1
LAG_MICROS = RUN_MICROS + 1
RUN = LAG_MICROS + 1
LAG = RUN + BUCKETS
ENQUEUED = LAG + BUCKETS
"""Places of a row of jobs: claims that were lost, two histograms with their sums, and jobs that were enqueued.

Those before the last are written by the one who counts how attempts end, all at once.
"""

FENCED = frozenset({"start", "progress", "save", "finish"})
"""The verbs that a store refuses to those whose claim is not valid any more."""

FAILED, STALE, MICROS, TOOK = range(4)
"""Places of a row of calls: those that failed, writes that were refused, and a histogram with its sum."""

JOB_ENDS: Sequence[float] = tuple(ends_at(4 * bucket) / 1000 for bucket in range(LAST))
"""Where the buckets of runs and lags end, in seconds: from a millisecond to more than an hour."""
CALL_ENDS: Sequence[float] = tuple(ends_at(4 * bucket) / 10_000 for bucket in range(LAST))
"""And those of calls, which begin at a tenth of a millisecond."""

EVENTS = ("ready", "recycled", "stopped", "crashed", "hung", "lost", "drained")
"""What became of workers, by place among the loose cells."""
BLOCKED, BLOCKED_MICROS, OUTAGES = range(len(EVENTS), len(EVENTS) + 3)
"""Other loose cells: how often and for how long an event loop was blocked, and how often the store went away."""


def bucket_of(units: float) -> int:
    """Return the bucket of a span, in units of the first."""
    return min(int(units * units).bit_length() + 3 >> 2, LAST) if units > 0 else 0
