"""Figures as they are looked at: points in time, sums over them, and what is made of histograms. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from standfast.figures.buckets import BUCKETS, percentile
from standfast.figures.pages import Gauges, QueueGauge
from standfast.figures.rows import LAG, LONGEST_RUN, OTHER, RUN, Count, Pair

__all__ = ["Figures", "Gauges", "Point", "QueueGauge", "Series", "sum_of"]

_NONE = (0,) * BUCKETS


class Figures(msgspec.Struct, frozen=True):
    """What was counted of a queue and a task. Both are empty where it is about all that there was no room for.

    completed, dead, cancelled: jobs that ended so, by their workers; dead also those that died with their worker.
    failed: attempts that were charged and are tried again.
    given_back: attempts after which a job waits again, nothing charged: released, snoozed, blocked.
    run_time: for how long handlers ran in all.
    run, lag: histograms of how long each run took, and how long after its time it began (`buckets.py`).
    longest_run, longest_lag: the longest of these; nothing where that is not known.
    """

    queue: str = ""
    task: str = ""
    completed: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    given_back: int = 0
    run_time: timedelta = timedelta()
    run: tuple[int, ...] = _NONE
    lag: tuple[int, ...] = _NONE
    longest_run: timedelta = timedelta()
    longest_lag: timedelta = timedelta()

    @property
    def ended(self) -> int:
        """How many attempts ended, all in all."""
        return self.completed + self.failed + self.dead + self.cancelled + self.given_back

    @property
    def mean_run(self) -> timedelta | None:
        """How long a run took on average; None without one."""
        runs = sum(self.run)
        return self.run_time / runs if runs else None

    def run_percentile(self, part: float) -> timedelta | None:
        """Return how long a run took at most of this part of them, 0.95 for p95; None without one."""
        return percentile(self.run, part, self.longest_run)

    def lag_percentile(self, part: float) -> timedelta | None:
        """Return how late a run began at most of this part of them, 0.95 for p95; None without one."""
        return percentile(self.lag, part, self.longest_lag)


class Point(msgspec.Struct, frozen=True):
    """What was counted from this time on, for one step of its series.

    `gauges` is how things stood; of a step longer than a minute the worst. None where nobody looked: nothing ended.
    """

    at: datetime
    rows: tuple[Figures, ...] = ()
    gauges: Gauges | None = None

    @property
    def total(self) -> Figures:
        """All of it in one."""
        return sum_of(self.rows)


class Series(msgspec.Struct, frozen=True):
    """A point for each step of a span of time, empty ones included, the oldest first.

    `now` is the store's time. The last point may be of a step that is not over.
    """

    now: datetime
    step: timedelta
    points: tuple[Point, ...]

    @property
    def total(self) -> Figures:
        """All of it in one."""
        return sum_of(point.total for point in self.points)

    def by_pair(self) -> tuple[Figures, ...]:
        """Return the sums of each queue and task, the busiest first; the rest, if any, last."""
        return _grouped(self.points, lambda row: (row.queue, row.task))

    def by_task(self) -> tuple[Figures, ...]:
        """Return the sums of each task, the busiest first; their queues are left empty."""
        return _grouped(self.points, lambda row: ("", row.task))

    def by_queue(self) -> tuple[Figures, ...]:
        """Return the sums of each queue, the busiest first; their tasks are left empty."""
        return _grouped(self.points, lambda row: (row.queue, ""))

    def per_minute(self, count: Callable[[Figures], int] = lambda figures: figures.completed) -> tuple[float, ...]:
        """Return for each point how many there were in a minute: completed ones, or what `count` says."""
        minutes = self.step.total_seconds() / 60
        return tuple(count(point.total) / minutes for point in self.points)


def sum_of(rows: Iterable[Figures], queue: str = "", task: str = "") -> Figures:
    """Return the sum of figures, under this name."""
    rows = list(rows)
    return Figures(
        queue,
        task,
        sum(row.completed for row in rows),
        sum(row.failed for row in rows),
        sum(row.dead for row in rows),
        sum(row.cancelled for row in rows),
        sum(row.given_back for row in rows),
        sum((row.run_time for row in rows), timedelta()),
        tuple(map(sum, zip(_NONE, *(row.run for row in rows), strict=True))),
        tuple(map(sum, zip(_NONE, *(row.lag for row in rows), strict=True))),
        max((row.longest_run for row in rows), default=timedelta()),
        max((row.longest_lag for row in rows), default=timedelta()),
    )


def figures_of(pair: Pair, count: Count) -> Figures:
    """Return a count as it is looked at."""
    completed, failed, dead, cancelled, given_back, micros = count[:RUN]
    run_time = timedelta(microseconds=micros)
    histograms = tuple(count[RUN:LAG]), tuple(count[LAG:LONGEST_RUN])
    longest = (timedelta(microseconds=each) for each in count[LONGEST_RUN:])
    return Figures(*pair, completed, failed, dead, cancelled, given_back, run_time, *histograms, *longest)


def _grouped(points: Sequence[Point], name: Callable[[Figures], Pair]) -> tuple[Figures, ...]:
    groups: dict[Pair, list[Figures]] = {}
    for point in points:
        for row in point.rows:
            groups.setdefault(name(row), []).append(row)
    sums = [sum_of(rows, *pair) for pair, rows in groups.items()]
    return tuple(sorted(sums, key=lambda row: ((row.queue, row.task) == OTHER, -row.ended, row.queue, row.task)))
