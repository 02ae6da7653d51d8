"""When the instances of a game work, in seconds from its start. Pure, and the same for a seed."""

from enum import StrEnum
from random import Random

import msgspec

from holdfast.bench.game.workload import WARM_UP, Workload

LATEST_START = 10
"""Whole seconds before which an instance starts, or starts again."""

SHIFTS = range(10, 30)
"""Whole seconds that an instance which comes and goes works at a time."""


class Mode(StrEnum):
    """What happens to the instances."""

    WORKERS = "workers"
    """They start one after the other and stay."""
    HATEST = "hatest"
    """They come and go, each stopped gracefully."""
    KILL = "kill"
    """They come and go, each killed with all its processes."""


class Shift(msgspec.Struct, frozen=True):
    """An instance works from here to there."""

    start: float
    end: float


def make_timetable(mode: Mode, instances: int, work: Workload, seed: int) -> tuple[tuple[Shift, ...], ...]:
    """Return the shifts of each instance."""
    shorter = work.since / WARM_UP  # in a short game, too, everybody is there before the first jobs are due
    shifts: list[tuple[Shift, ...]] = []
    for number in range(instances):
        random = Random(f"instance {number} of {seed}")  # noqa: S311 - a timetable
        if mode is Mode.WORKERS:
            shifts.append((Shift(random.randrange(LATEST_START) * shorter, work.end),))
        else:
            shifts.append(_coming_and_going(work.end, random))
    return tuple(shifts)


def _coming_and_going(end: float, random: Random) -> tuple[Shift, ...]:
    shifts: list[Shift] = []
    at = 0.0
    while (start := at + random.randrange(LATEST_START)) < end:
        at = min(start + random.choice(SHIFTS), end)
        shifts.append(Shift(start, at))
    return tuple(shifts)
