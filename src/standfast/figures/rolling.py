"""Fills longer windows from shorter ones, and forgets pages that are kept no longer.

    pages that are due ─► the page of the window above, made anew of all in it ─► due when they are kept no longer

A longer window is the sum of the shorter ones, made anew each time: so it does no harm to make it twice, and one
that changed meanwhile, because a part came late, stays due and has it made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from standfast.core.record import Kind, Record
from standfast.figures.gauging import worse
from standfast.figures.named import all_named
from standfast.figures.pages import (
    EMPTY,
    Page,
    Window,
    forgetting,
    is_taken_in,
    putting_off,
    read_page,
    to_time,
    window_of,
    writing,
)
from standfast.figures.rows import Counts, add_rows
from standfast.store.errand import Verbs
from standfast.store.protocol import DueRecords, Store

AT_ONCE = 100
"""How many pages one look takes."""

LINGER = timedelta(hours=1)
"""How long a page stays at least after it was taken in: those who have seen that it was not there are gone then."""


class Rolled(NamedTuple):
    """How many windows were filled, and whether there may be more to do."""

    windows: int
    more: bool


def roll_up(verbs: Store) -> Verbs[Rolled]:
    """Fill the windows above the pages that are due; forget those that are over."""
    due: DueRecords = yield verbs.due_records(Kind.FIGURES, timedelta(), AT_ONCE)
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
    return Rolled(len(above), bool(above) or len(due.records) == AT_ONCE)


def _fill(verbs: Store, window: Window, now: datetime) -> Verbs[None]:
    within = {each.name: each for each in window.within()}
    found: Sequence[Record] = yield verbs.records(Kind.FIGURES, [window.name, *within])
    pages = {record.name: record for record in found}
    before = pages.pop(window.name, None)
    page = made_of(read_page(before), {within[name].start: read_page(record) for name, record in pages.items()})
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


def made_of(before: Page, within: Mapping[int, Page]) -> Page:
    """Return the page of a window, given what it was and the pages of those that it takes in.

    Should one of them be forgotten that it had taken in, it stays what it was, and takes in those that are new.
    """
    kept, fresh = EMPTY, within
    if not within.keys() >= set(before.of):
        kept, fresh = before, {start: page for start, page in within.items() if start not in before.of}
    return replace(added(kept, fresh.values()), of=tuple(sorted({*before.of, *within})))


def added(page: Page, others: Iterable[Page]) -> Page:
    """Return a page with what others say besides."""
    pages = (page, *others)
    counts: Counts = {}
    gauges = None
    for each in pages:
        add_rows(counts, each.rows)
        gauges = worse(gauges, each.gauges)
    return replace(page.telling(counts, all_named(each.named for each in pages)), gauges=gauges)
