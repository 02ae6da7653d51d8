"""The records of figures: what they are called, what they say, when somebody has to look at them. Pure.

A part says what one process has counted in one minute, since the part before. It never changes, and is due when its
minute has settled: then it is folded into the page of that minute. A page of a minute belongs to a page of ten
minutes, and that to one of an hour. Its `due_at` says how it stands:

    due soon: its window above has yet to take it in  ─►  due when it is kept no longer: that window has it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

import msgspec

from standfast.core.record import Change, Kind, Record, read_body
from standfast.figures.named import UNNAMED, Named
from standfast.figures.rows import Counts, Row, to_rows

SETTLES = 20
"""Seconds after the end of a minute by when all should have published what they counted in it."""

LATE = 5 * 3600
"""Seconds after which the page of a part's minute may be forgotten: less than what minutes are kept for."""

_HOUR, _DAY = 3600, 86_400


class QueueGauge(msgspec.Struct, frozen=True, array_like=True):
    """How many jobs of a queue were ready, and for how many seconds the oldest of them had been due."""

    queue: str
    ready: int
    oldest: float


class Gauges(msgspec.Struct, frozen=True, array_like=True):
    """How things stood once in a minute; of a longer time the worst: fewest workers, most of all else."""

    workers: int
    running: int
    queues: tuple[QueueGauge, ...] = ()


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a record says. `parts` are those that a minute has taken in, by who counted: their numbers.

    `of` are the windows that a longer one has taken in, by their beginnings. `named` are the queues and tasks in it
    that a rule or an objective is about, as those who counted knew: they are told apart in longer windows, too.
    """

    rows: tuple[Row, ...] = ()
    gauges: Gauges | None = None
    parts: Mapping[str, tuple[int, ...]] = {}
    of: tuple[int, ...] = ()
    named: Named = UNNAMED

    def telling(self, counts: Counts, named: Named) -> "Page":
        """Return this page with what was counted in the place of its rows."""
        return msgspec.structs.replace(self, rows=to_rows(counts, named), named=named.among(counts))


EMPTY = Page()


@dataclass(frozen=True, slots=True)
class Level:
    """Pages of windows so many seconds long, kept for `kept`; they go together, once in `goes_every`."""

    tag: str
    seconds: int
    kept: int
    goes_every: int
    above: "Level | None" = None

    def name(self, start: int) -> str:
        """Return what the page of a window is called that begins at this time."""
        return f"{self.tag}.{start}"

    def start(self, at: int) -> int:
        """Return where the window begins that this time is in."""
        return at - at % self.seconds

    def due_at(self, start: int) -> int:
        """Return when the window above is to take this one in; without one above, when it is kept no longer."""
        if self.above is None:
            return self.ends_at(start)
        return self.above.start(start) + self.above.seconds + SETTLES + self.above.seconds // 5

    def ends_at(self, start: int) -> int:
        """Return when a page is kept no longer."""
        end = start + self.seconds
        return end + -end % self.goes_every + self.kept + SETTLES


HOUR = Level("1h", _HOUR, 30 * _DAY, _DAY)
TEN_MINUTES = Level("10m", 600, 3 * _DAY, _DAY, above=HOUR)
MINUTE = Level("1m", 60, 6 * _HOUR, _HOUR, above=TEN_MINUTES)
LEVELS: Mapping[str, Level] = {level.tag: level for level in (MINUTE, TEN_MINUTES, HOUR)}


class Window(NamedTuple):
    """The window of a page."""

    level: Level
    start: int

    @property
    def name(self) -> str:
        """What its page is called."""
        return self.level.name(self.start)

    @property
    def above(self) -> "Window | None":
        """The window that takes it in."""
        above = self.level.above
        return None if above is None else Window(above, above.start(self.start))

    def within(self) -> Sequence["Window"]:
        """Return the windows that it takes in."""
        for level in LEVELS.values():
            if level.above is self.level:
                return [
                    Window(level, start)
                    for start in range(self.start, self.start + self.level.seconds, level.seconds)
                ]
        return ()


class Part(NamedTuple):
    """A part by its name: whose it is, of which minute, and its number."""

    minute: int
    source: str
    number: int

    @property
    def name(self) -> str:
        """What its record is called."""
        return f"{self.minute}.{self.source}.{self.number}"

    @property
    def due_at(self) -> datetime:
        """When it is to be folded into its minute."""
        return to_time(self.minute + MINUTE.seconds + SETTLES)


def part_of(name: str) -> Part | None:
    """Return what a name says; None for nonsense."""
    try:
        minute, source, number = name.split(".")
        return Part(int(minute), source, int(number))
    except ValueError:
        return None


def window_of(name: str) -> Window | None:
    """Return what a name says; None for nonsense."""
    tag, _, start = name.partition(".")
    level = LEVELS.get(tag)
    return Window(level, int(start)) if level is not None and start.isdecimal() else None


def is_taken_in(record: Record, window: Window) -> bool:
    """Tell whether the window above a page has taken it in as it is."""
    return record.due_at is not None and record.due_at >= to_time(window.level.ends_at(window.start))


def is_known_above(window: Window, pages: Mapping[str, Page]) -> bool:
    """Tell whether a longer window, as far as there are pages, says that it has taken this one in."""
    above = window.above
    while above is not None:
        page = pages.get(above.name)
        if page is not None:
            return window.start in page.of
        window, above = above, above.above
    return False


def read_page(record: Record | None) -> Page:
    """Return what a record says; nothing where there is none, or nobody can read it."""
    return EMPTY if record is None else read_body(record, Page) or EMPTY


def writing(kind: Kind, name: str, page: Page, due_at: datetime, before: Record | None = None) -> Change:
    """Return the change that writes a page in the place of what was seen."""
    seen, after = (0, None) if before is None else (before.version, before.token)
    return Change(kind, name, seen, str(uuid4()), msgspec.json.encode(page), due_at=due_at, after=after)


def putting_off(record: Record, due_at: datetime) -> Change:
    """Return the change that lets a record be due later."""
    seen, token = record.version, str(uuid4())
    return Change(record.kind, record.name, seen, token, record.body, due_at=due_at, after=record.token)


def forgetting(record: Record) -> Change:
    """Return the change that forgets a record as it was seen."""
    return Change(record.kind, record.name, record.version, str(uuid4()), None, after=record.token)


def to_time(seconds: int) -> datetime:
    """Return the time that so many seconds since 1970 are."""
    return datetime.fromtimestamp(seconds, UTC)
