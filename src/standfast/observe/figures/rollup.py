"""The records of figures: what they are called, what they say, when somebody has to look at them. Pure.

A part says what one process has counted in one minute, since the part before. It never changes, and is due when its
minute has settled: then it is folded into the page of that minute. A page of a minute belongs to a page of ten
minutes, and that to one of an hour. Its `due_at` says how it stands:

    due soon: its window above has yet to take it in  ─►  due when it is kept no longer: that window has it
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.errors import StandfastError
from standfast.model.records import Change, Kind, Record, forgetting, read_body, writing
from standfast.model.states import State
from standfast.observe.figures.counts import UNNAMED, Counts, Named, Row, add_rows, all_named, to_rows
from standfast.stores.contract import Store
from standfast.stores.values import DueRecords, Queue, QueueAges, Worker
from standfast.stores.verb import Verbs, procedure

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


class Rollup(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a record says. `parts` are those that a minute has taken in, by who counted: their numbers.

    `of` are the windows that a longer one has taken in, by their beginnings. `named` are the queues and tasks in it
    that a rule or an objective is about, as those who counted knew: they are told apart in longer windows, too.
    """

    rows: tuple[Row, ...] = ()
    gauges: Gauges | None = None
    parts: Mapping[str, tuple[int, ...]] = {}
    of: tuple[int, ...] = ()
    named: Named = UNNAMED

    def telling(self, counts: Counts, named: Named) -> "Rollup":
        """Return this page with what was counted in the place of its rows."""
        return msgspec.structs.replace(self, rows=to_rows(counts, named), named=named.among(counts))


EMPTY = Rollup()


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


def is_known_above(window: Window, pages: Mapping[str, Rollup]) -> bool:
    """Tell whether a longer window, as far as there are pages, says that it has taken this one in."""
    above = window.above
    while above is not None:
        page = pages.get(above.name)
        if page is not None:
            return window.start in page.of
        window, above = above, above.above
    return False


def read_rollup(record: Record | None) -> Rollup:
    """Return what a record says; nothing where there is none, or nobody can read it."""
    return EMPTY if record is None else read_body(record, Rollup) or EMPTY


def putting_off(record: Record, due_at: datetime) -> Change:
    """Return the change that lets a record be due later."""
    return replace(forgetting(record), body=record.body, due_at=due_at)


def to_time(seconds: int) -> datetime:
    """Return the time that so many seconds since 1970 are."""
    return datetime.fromtimestamp(seconds, UTC)


QUEUES = 100
"""So many queues a sample tells of: those with the most jobs."""


def sample(verbs: Store) -> Verbs[Gauges | None]:
    """Return how things stand; None where the store does not say."""
    try:
        ages: QueueAges = yield verbs.queue_ages()
        queues: Sequence[Queue] = yield verbs.queues()
        workers: Sequence[Worker] = yield verbs.workers()
    except StandfastError:
        return None
    oldest = {age.name: (ages.now - age.oldest_due_at).total_seconds() for age in ages.queues}
    waiting = ((queue.name, queue.states.get(State.READY, 0)) for queue in queues)
    return Gauges(
        workers=sum(worker.is_live for worker in workers),
        running=sum(worker.running for worker in workers),
        queues=_fullest(
            QueueGauge(name, ready, max(oldest.get(name, 0.0), 0.0)) for name, ready in waiting if ready
        ),
    )


def worse(one: Gauges | None, other: Gauges | None) -> Gauges | None:
    """Return the worst of two samples."""
    if one is None or other is None:
        return one or other
    queues = {gauge.queue: gauge for gauge in one.queues}
    for gauge in other.queues:
        known = queues.get(gauge.queue, gauge)
        queues[gauge.queue] = QueueGauge(
            gauge.queue, max(known.ready, gauge.ready), max(known.oldest, gauge.oldest)
        )
    return Gauges(min(one.workers, other.workers), max(one.running, other.running), _fullest(queues.values()))


def _fullest(gauges: Iterable[QueueGauge]) -> tuple[QueueGauge, ...]:
    """Return those with the most jobs, by name."""
    fullest = sorted(gauges, key=lambda gauge: (-gauge.ready, gauge.queue))[:QUEUES]
    return tuple(sorted(fullest, key=lambda gauge: gauge.queue))


#     pages that are due ─► the page of the window above, made anew of all in it ─► due when they are kept no longer
#
# A longer window is the sum of the shorter ones, made anew each time: so it does no harm to make it twice, and one
# that changed meanwhile, because a part came late, stays due and has it made again.

ROLLUPS_AT_ONCE = 100
"""How many pages one look takes."""

LINGER = timedelta(hours=1)
"""How long a page stays at least after it was taken in: those who have seen that it was not there are gone then."""


def roll_up(verbs: Store) -> Verbs[tuple[int, bool]]:
    """Fill the windows above the pages that are due, and forget those that are over; return how many, and if more."""
    due: DueRecords = yield verbs.due_records(Kind.FIGURES, timedelta(), ROLLUPS_AT_ONCE)
    above: dict[Window, None] = {}
    over: list[Record] = []
    for record in due.records:
        window = window_of(record.name)
        if window is None or window.above is None or is_taken_in(record, window):
            over.append(record)
        else:
            above[window.above] = None
    for window in above:
        yield from _fill(verbs, window, due.now)
    if over:  # last: what is filled above may be made of them
        yield verbs.change_records([forgetting(record) for record in over])
    return len(above), bool(above) or len(due.records) == ROLLUPS_AT_ONCE


def _fill(verbs: Store, window: Window, now: datetime) -> Verbs[None]:
    within = {each.name: each for each in window.within()}
    found: Sequence[Record] = yield verbs.records(Kind.FIGURES, [window.name, *within])
    pages = {record.name: record for record in found}
    before = pages.pop(window.name, None)
    page = made_of(read_rollup(before), {within[name].start: read_rollup(record) for name, record in pages.items()})
    due_at = to_time(window.level.due_at(window.start))
    (made,) = yield verbs.change_records([writing(Kind.FIGURES, window.name, page, due_at, before)])
    if made:
        taken = [(record, within[name]) for name, record in pages.items()]
        changes = [
            putting_off(record, max(to_time(each.level.ends_at(each.start)), now + LINGER))
            for record, each in taken
            if not is_taken_in(record, each)
        ]
        if changes:
            yield verbs.change_records(changes)


def made_of(before: Rollup, within: Mapping[int, Rollup]) -> Rollup:
    """Return the page of a window, given what it was and the pages of those that it takes in.

    Should one of them be forgotten that it had taken in, it stays what it was, and takes in those that are new.
    """
    kept, fresh = EMPTY, within
    if not within.keys() >= set(before.of):
        kept, fresh = before, {start: page for start, page in within.items() if start not in before.of}
    return replace(added(kept, fresh.values()), of=tuple(sorted({*before.of, *within})))


def added(page: Rollup, others: Iterable[Rollup]) -> Rollup:
    """Return a page with what others say besides."""
    pages = (page, *others)
    counts: Counts = {}
    gauges = None
    for each in pages:
        add_rows(counts, each.rows)
        gauges = worse(gauges, each.gauges)
    return replace(page.telling(counts, all_named(each.named for each in pages)), gauges=gauges)


#     parts that are due ─► the page of their minute, by comparison of versions ─► parts forgotten
#
# A page names the parts that it has taken in. So one that is still there, because somebody died between the two, or
# that comes again, because its answer was lost, is forgotten and not counted; and of several who fold at the same
# time one does. One that comes so late that the page of its minute is forgotten is counted only if there never was
# such a page.

PARTS_AT_ONCE = 200
"""How many parts one look takes: so few that every store changes all of them in one step."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What came of a look: how many parts were folded and windows filled, and whether there may be more to do."""

    parts: int
    windows: int
    more: bool


@procedure
def fold_due(verbs: Store) -> Verbs[Folded]:
    """Fold what is due, sample how things stand if anything was, and forget what is kept no longer."""
    due: DueRecords = yield verbs.due_records(Kind.TALLY, timedelta(), PARTS_AT_ONCE)
    folded = 0
    if due.records:
        folded = yield from _fold(verbs, due)
    windows, more = yield from roll_up(verbs)
    return Folded(folded, windows, more or len(due.records) == PARTS_AT_ONCE)


def _fold(verbs: Store, due: DueRecords) -> Verbs[int]:
    batch = _Batch.of(due)
    pages: Sequence[Record] = yield verbs.records(Kind.FIGURES, batch.names())
    batch.meet({page.name: page for page in pages})
    if batch.pages:
        made: Sequence[bool] = yield verbs.change_records(list(batch.pages.values()))
        batch.made = {minute for minute, done in zip(batch.pages, made, strict=True) if done}
    ours = [record for minute in batch.made for record in batch.fresh[minute]]
    changes = [forgetting(record) for record in (*batch.over, *ours)]
    if ours:
        gauges = yield from sample(verbs)
        if gauges is not None and (batch.has_rows or gauges.running or gauges.queues):
            changes.append(_noting(gauges, due.now))
    if changes:
        yield verbs.change_records(changes)
    return len(ours)


def _noting(gauges: Gauges, now: datetime) -> Change:
    """Return a part that says how things stand now. It is folded in its turn: so there is a next sample."""
    minute = MINUTE.start(int(now.timestamp()))
    part = Part(minute, f"gauges-{uuid4().hex[:16]}", 0)
    return writing(Kind.TALLY, part.name, Rollup(gauges=gauges), part.due_at)


@dataclass(slots=True)
class _Batch:
    """The parts of one look, by minute, while they are folded. `over` are those that are to be forgotten only."""

    now: datetime
    minutes: Mapping[int, Sequence[tuple[Part, Record]]]
    over: list[Record]
    fresh: dict[int, list[Record]] = field(default_factory=dict)
    pages: dict[int, Change] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    has_rows: bool = False

    @classmethod
    def of(cls, due: DueRecords) -> "_Batch":
        """Sort what is due; what nobody can read, or is older than all figures, is over."""
        minutes: dict[int, list[tuple[Part, Record]]] = {}
        over = []
        for record in due.records:
            part = part_of(record.name)
            if part is None or due.now > to_time(part.minute + HOUR.kept):
                over.append(record)
            else:
                minutes.setdefault(part.minute, []).append((part, record))
        return cls(due.now, minutes, over)

    def names(self) -> Sequence[str]:
        """Return the names of the pages to look at: of late minutes also those above."""
        names: dict[str, None] = {}
        for minute in self.minutes:
            window: Window | None = Window(MINUTE, minute)
            while window is not None:
                names[window.name] = None
                window = window.above if self._is_late(minute) else None
        return list(names)

    def _is_late(self, minute: int) -> bool:
        return self.now > to_time(minute + LATE)

    def meet(self, pages: Mapping[str, Record]) -> None:
        """Decide what is to be written, now that the pages of the minutes are known."""
        read = {name: read_rollup(record) for name, record in pages.items()}
        for minute, parts in self.minutes.items():
            before = pages.get(MINUTE.name(minute))
            if before is None and self._is_late(minute) and is_known_above(Window(MINUTE, minute), read):
                self.over += [record for _, record in parts]
                continue
            page = read.get(MINUTE.name(minute), EMPTY)
            taken = {(source, number) for source, numbers in page.parts.items() for number in numbers}
            fresh = [(part, record) for part, record in parts if (part.source, part.number) not in taken]
            self.over += [record for part, record in parts if (part.source, part.number) in taken]
            if fresh:
                self.fresh[minute] = [record for _, record in fresh]
                self.pages[minute] = self._change(minute, before, page, fresh)

    def _change(
        self, minute: int, before: Record | None, page: Rollup, fresh: Iterable[tuple[Part, Record]]
    ) -> Change:
        parts, said = {source: list(numbers) for source, numbers in page.parts.items()}, []
        for part, record in fresh:
            said.append(read_rollup(record))
            parts.setdefault(part.source, []).append(part.number)
        self.has_rows = self.has_rows or any(each.rows for each in said)
        written = replace(added(page, said), parts={source: tuple(numbers) for source, numbers in parts.items()})
        return writing(Kind.FIGURES, MINUTE.name(minute), written, to_time(MINUTE.due_at(minute)), before)
