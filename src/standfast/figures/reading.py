"""Reads figures for a span of time, as fine as they are kept, and exactly: what is not folded yet is in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from standfast.core.record import Kind, Record
from standfast.figures.gauging import worse
from standfast.figures.pages import (
    EMPTY,
    HOUR,
    MINUTE,
    TEN_MINUTES,
    Gauges,
    Level,
    Page,
    Part,
    Window,
    is_taken_in,
    part_of,
    read_page,
    to_time,
    window_of,
)
from standfast.figures.rolling import added, made_of
from standfast.figures.rows import Counts, Row, add_rows
from standfast.figures.series import Point, Series, figures_of
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import DueRecords, Store

POINTS = 400
"""So many points a series has at most, if the reader does not say how long their steps are."""

NAMES = 400
"""How many records one call asks for."""

PARTS = 5_000
"""How many parts are looked at that nobody has folded yet."""

_AHEAD = timedelta(minutes=5)
"""So far ahead parts are due, at most."""


@errand
def read_figures(
    verbs: Store,
    since: datetime,
    until: datetime | None = None,
    step: timedelta | None = None,
    only: Callable[[Row], bool] | None = None,
) -> Verbs[Series]:
    """Return the figures from `since` to `until`, or to the store's now, in steps of this length.

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
    found: dict[str, Page] = {}
    for place in range(0, len(names), NAMES):
        records: Sequence[Record] = yield verbs.records(Kind.FIGURES, names[place : place + NAMES])
        found |= {record.name: read_page(record) for record in records}
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
    parts: Mapping[int, Sequence[tuple[Part, Page]]]

    @classmethod
    def of(cls, level: Level, starts: range, parts: DueRecords, pages: Iterable[Record]) -> "_Plan":
        """Find out which windows do not have all that belongs to them: those are made anew of what is in them."""
        by_minute: dict[int, list[tuple[Part, Page]]] = {}
        for record in parts.records:
            part = part_of(record.name)
            if part is not None:
                by_minute.setdefault(part.minute, []).append((part, read_page(record)))
        loose = [Window(MINUTE, minute) for minute in by_minute]
        for record in pages:
            window = window_of(record.name)
            if window is not None and not is_taken_in(record, window):
                loose.append(window)
        unfinished = frozenset(above for window in loose for above in _all_above(window))
        return cls([Window(level, start) for start in starts], parts.now, unfinished, by_minute)

    def names(self) -> Sequence[str]:
        """Return the names of all pages that are to be read."""
        return [window.name for each in self.windows for window in self._with_unfinished(each)]

    def points(
        self, starts: Iterable[int], seconds: int, found: Mapping[str, Page], only: Callable[[Row], bool] | None
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

    def _page(self, window: Window, found: Mapping[str, Page]) -> Page | None:
        """Return the page of a window as it will be when all is folded; None without anything in it."""
        page = found.get(window.name)
        if window.level is MINUTE:
            return self._with_parts(window.start, page)
        if not self._is_unfinished(window):
            return page
        before = page or EMPTY
        within: dict[int, Page] = {}
        for each in window.within():
            inner = self._page(each, found)
            forgotten = each.name not in found and each.start in before.of
            if inner is not None and not forgotten:  # else it is a part that comes again, or too late
                within[each.start] = inner
        return made_of(before, within)

    def _with_parts(self, minute: int, page: Page | None) -> Page | None:
        taken = {} if page is None else page.parts
        fresh = [said for part, said in self.parts.get(minute, ()) if part.number not in taken.get(part.source, ())]
        return added(page or EMPTY, fresh) if fresh else page


def _all_above(window: Window) -> Iterator[Window]:
    above = window.above
    while above is not None:
        yield above
        above = above.above
