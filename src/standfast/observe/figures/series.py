"""Figures as they are looked at: points in time, sums over them, and what is made of histograms. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from standfast.model.records import Kind, Record
from standfast.observe.figures.counts import LAG, LONGEST_RUN, OTHER, RUN, Count, Counts, Pair, Row, add_rows
from standfast.observe.figures.histogram import BUCKETS, percentile
from standfast.observe.figures.rollup import (
    EMPTY,
    HOUR,
    MINUTE,
    TEN_MINUTES,
    Gauges,
    Level,
    Part,
    Rollup,
    Window,
    added,
    is_taken_in,
    made_of,
    part_of,
    read_rollup,
    to_time,
    window_of,
    worse,
)
from standfast.stores.contract import Store
from standfast.stores.values import DueRecords
from standfast.stores.verb import Verbs, procedure

_NONE = (0,) * BUCKETS


class Figures(msgspec.Struct, frozen=True):
    """What was counted of a queue and a task. Both are empty where it is about all that there was no room for.

    completed, dead, cancelled: jobs that ended so, by their workers; dead also those that died with their worker.
    failed: attempts that were charged and are tried again.
    given_back: attempts after which a job waits again, nothing charged: released, snoozed, blocked.
    run_time: for how long handlers ran in all.
    run, lag: histograms of how long each run took, and how long after its time it began (`histogram.py`).
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


POINTS = 400
"""So many points a series has at most, if the reader does not say how long their steps are."""

NAMES = 400
"""How many records one call asks for."""

PARTS = 5_000
"""How many parts are looked at that nobody has folded yet."""

_AHEAD = timedelta(minutes=5)
"""So far ahead parts are due, at most."""


@procedure
def read_figures(
    verbs: Store,
    since: datetime,
    until: datetime | None = None,
    step: timedelta | None = None,
    only: Callable[[Row], bool] | None = None,
) -> Verbs[Series]:
    """Return the figures from `since` to `until`, or to the store's now, in steps of this length, exactly.

    Without a step it is a minute, ten minutes or an hour: the shortest that is kept for the whole span, which is
    for 6 hours, 3 days or 30 days, and makes at most POINTS points. A step must be whole minutes; where it is
    shorter than what is kept, the next longer is taken. The first point begins at or before `since`. Takes three
    to five calls, whatever the span. Who wants `only` some rows is spared the work of the others, which is most.
    """
    parts: DueRecords = yield verbs.due_records(Kind.TALLY, _AHEAD, PARTS)
    until = until or parts.now + timedelta(seconds=1)  # the minute that has just begun is in it
    level, seconds = choose_step(since, until, parts.now, step)
    pending: DueRecords = yield verbs.due_records(Kind.FIGURES, timedelta(), PARTS)
    first, end = int(since.timestamp()) // seconds * seconds, int(until.timestamp())
    plan = _Plan.of(level, range(first, max(end, first + 1), level.seconds), parts, pending.records)
    names = plan.names()
    found: dict[str, Rollup] = {}
    for place in range(0, len(names), NAMES):
        records: Sequence[Record] = yield verbs.records(Kind.FIGURES, names[place : place + NAMES])
        found |= {record.name: read_rollup(record) for record in records}
    starts = range(first, max(end, first + 1), seconds)
    points = plan.points(starts, seconds, found, only)
    return Series(parts.now, timedelta(seconds=seconds), tuple(points))


def choose_step(since: datetime, until: datetime, now: datetime, step: timedelta | None) -> tuple[Level, int]:
    """Return which pages to read, and the seconds of a step. Raises ValueError for a step that cannot be."""
    if step is not None and (step < timedelta(minutes=1) or step % timedelta(minutes=1)):
        raise ValueError(f"a step of figures is whole minutes, not {step}")
    span, age = (until - since).total_seconds(), (now - since).total_seconds()
    kept = [level for level in (MINUTE, TEN_MINUTES) if age <= level.kept] + [HOUR]
    if step is None:
        level = next((each for each in kept if span <= POINTS * each.seconds), HOUR)
        return level, level.seconds
    seconds = int(step.total_seconds())
    fitting = [level for level in kept if seconds % level.seconds == 0]
    if fitting:
        return fitting[-1], seconds
    finest = kept[0]
    return finest, -(-seconds // finest.seconds) * finest.seconds


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be read: windows, those that do not have all that is in them, and parts that nobody has folded."""

    windows: Sequence[Window]
    now: datetime
    unfinished: frozenset[Window]
    parts: Mapping[int, Sequence[tuple[Part, Rollup]]]

    @classmethod
    def of(cls, level: Level, starts: range, parts: DueRecords, pages: Iterable[Record]) -> "_Plan":
        """Find out which windows do not have all that belongs to them: those are made anew of what is in them."""
        by_minute: dict[int, list[tuple[Part, Rollup]]] = {}
        for record in parts.records:
            part = part_of(record.name)
            if part is not None:
                by_minute.setdefault(part.minute, []).append((part, read_rollup(record)))
        loose = [Window(MINUTE, minute) for minute in by_minute]
        for record in pages:
            window = window_of(record.name)
            if window is not None and not is_taken_in(record, window):
                loose.append(window)
        unfinished = set[Window]()
        for window in loose:
            above = window.above
            while above is not None:
                unfinished.add(above)
                above = above.above
        return cls([Window(level, start) for start in starts], parts.now, frozenset(unfinished), by_minute)

    def names(self) -> Sequence[str]:
        """Return the names of all pages that are to be read."""
        return [window.name for each in self.windows for window in self._with_unfinished(each)]

    def points(
        self, starts: Iterable[int], seconds: int, found: Mapping[str, Rollup], only: Callable[[Row], bool] | None
    ) -> Iterator[Point]:
        """Yield the points, of the pages that were found."""
        places = iter(self.windows)
        window = next(places, None)
        for start in starts:
            counts: Counts = {}
            gauges: Gauges | None = None
            while window is not None and window.start < start + seconds:
                page = self._page(window, found)
                if page is not None:
                    add_rows(counts, page.rows if only is None else filter(only, page.rows))
                    gauges = worse(gauges, page.gauges)
                window = next(places, None)
            rows = tuple(figures_of(pair, counts[pair]) for pair in sorted(counts))
            yield Point(to_time(start), rows, gauges)

    def _is_unfinished(self, window: Window) -> bool:
        """Tell whether a window may not have all that is in it: it is too early, or somebody is late."""
        within = window.within()
        return window in self.unfinished or (
            bool(within) and self.now < to_time(within[0].level.due_at(window.start))
        )

    def _with_unfinished(self, window: Window) -> Iterator[Window]:
        yield window
        if self._is_unfinished(window):
            for each in window.within():
                yield from self._with_unfinished(each)

    def _page(self, window: Window, found: Mapping[str, Rollup]) -> Rollup | None:
        """Return the page of a window as it will be when all is folded; None without anything in it."""
        page = found.get(window.name)
        if window.level is MINUTE:
            return self._with_parts(window.start, page)
        if not self._is_unfinished(window):
            return page
        before = page or EMPTY
        within: dict[int, Rollup] = {}
        for each in window.within():
            inner = self._page(each, found)
            forgotten = each.name not in found and each.start in before.of
            if inner is not None and not forgotten:  # else it is a part that comes again, or too late
                within[each.start] = inner
        return made_of(before, within)

    def _with_parts(self, minute: int, page: Rollup | None) -> Rollup | None:
        taken = {} if page is None else page.parts
        fresh = [said for part, said in self.parts.get(minute, ()) if part.number not in taken.get(part.source, ())]
        return added(page or EMPTY, fresh) if fresh else page
