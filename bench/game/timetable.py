"""When the instances of a game work, in seconds from its start. Pure, and the same for a seed."""

from enum import StrEnum
from random import Random

import msgspec

from game.workload import WARM_UP, Workload

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
    RELIABILITY = "reliability"
    """Three of five are stopped or killed at random moments and never come back; the others take over."""

    @property
    def kills(self) -> bool:
        """Whether instances are killed."""
        return self in {Mode.KILL, Mode.RELIABILITY}


class Shift(msgspec.Struct, frozen=True):
    """An instance works from here to there."""

    start: float
    end: float
    killed: bool = False


def make_timetable(mode: Mode, instances: int, work: Workload, seed: int) -> tuple[tuple[Shift, ...], ...]:
    """Return the shifts of each instance."""
    shorter = work.since / WARM_UP  # in a short game, too, everybody is there before the first jobs are due
    shifts: list[tuple[Shift, ...]] = []
    for number in range(instances):
        random = Random(f"instance {number} of {seed}")
        if mode in {Mode.WORKERS, Mode.RELIABILITY}:
            shifts.append((Shift(random.randrange(LATEST_START) * shorter, work.end),))
        else:
            shifts.append(_coming_and_going(work.end, random, killed=mode is Mode.KILL))
    if mode is Mode.RELIABILITY:
        random = Random(f"reliability {seed}")
        for place, number in enumerate(random.sample(range(instances), leaving(instances))):
            [shift] = shifts[number]
            shifts[number] = (Shift(shift.start, random.uniform(work.since, work.until), killed=place % 2 == 0),)
    return tuple(shifts)


def leaving(instances: int) -> int:
    """Return how many instances leave in a reliability round: three of five."""
    return instances * 3 // 5


def _coming_and_going(end: float, random: Random, *, killed: bool) -> tuple[Shift, ...]:
    shifts: list[Shift] = []
    at = 0.0
    while (start := at + random.randrange(LATEST_START)) < end:
        at = min(start + random.choice(SHIFTS), end)
        shifts.append(Shift(start, at, killed=killed and at < end))
    return tuple(shifts)
