"""Folds parts into the minutes that they are of, each once, whoever comes and whoever dies on the way.

    parts that are due ─► the page of their minute, by comparison of versions ─► parts forgotten

A page names the parts that it has taken in. So one that is still there, because somebody died between the two, or
that comes again, because its answer was lost, is forgotten and not counted; and of several who fold at the same
time one does. One that comes so late that the page of its minute is forgotten is counted only if there never was
such a page.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from msgspec.structs import replace

from standfast.core.record import Change, Kind, Record
from standfast.figures.gauging import is_quiet, sample
from standfast.figures.pages import (
    EMPTY,
    HOUR,
    LATE,
    MINUTE,
    Gauges,
    Page,
    Part,
    Window,
    forgetting,
    is_known_above,
    part_of,
    read_page,
    to_time,
    writing,
)
from standfast.figures.rolling import added, roll_up
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import DueRecords, Store

AT_ONCE = 200
"""How many parts one look takes: so few that every store changes all of them in one step."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What came of a look: how many parts were folded and windows filled, and whether there may be more to do."""

    parts: int
    windows: int
    more: bool


@errand
def fold_due(verbs: Store) -> Verbs[Folded]:
    """Fold what is due, sample how things stand if anything was, and forget what is kept no longer."""
    due: DueRecords = yield verbs.due_records(Kind.TALLY, timedelta(), AT_ONCE)
    folded = 0
    if due.records:
        folded = yield from _fold(verbs, due)
    rolled = yield from roll_up(verbs)
    return Folded(folded, rolled.windows, rolled.more or len(due.records) == AT_ONCE)


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
        if gauges is not None and (batch.has_rows or not is_quiet(gauges)):
            changes.append(_noting(gauges, due.now))
    if changes:
        yield verbs.change_records(changes)
    return len(ours)


def _noting(gauges: Gauges, now: datetime) -> Change:
    """Return a part that says how things stand now. It is folded in its turn: so there is a next sample."""
    minute = MINUTE.start(int(now.timestamp()))
    part = Part(minute, f"gauges-{uuid4().hex[:16]}", 0)
    return writing(Kind.TALLY, part.name, Page(gauges=gauges), part.due_at)


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
        read = {name: read_page(record) for name, record in pages.items()}
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
        self, minute: int, before: Record | None, page: Page, fresh: Iterable[tuple[Part, Record]]
    ) -> Change:
        parts, said = {source: list(numbers) for source, numbers in page.parts.items()}, []
        for part, record in fresh:
            said.append(read_page(record))
            parts.setdefault(part.source, []).append(part.number)
        self.has_rows = self.has_rows or any(each.rows for each in said)
        written = replace(added(page, said), parts={source: tuple(numbers) for source, numbers in parts.items()})
        return writing(Kind.FIGURES, MINUTE.name(minute), written, to_time(MINUTE.due_at(minute)), before)
