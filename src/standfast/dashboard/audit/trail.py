"""The trail in the store: who did what, the newest first. It only grows, and its oldest end is forgotten.

Whoever adds to it compares versions, and tries again where somebody else was faster. An answer that was lost is no
reason to write twice: an entry is looked for before it is tried again. What takes long is written down when it
begins and again, by the same id, as it goes on and when it ends: in place of what was there, while its chunk grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

import msgspec

from standfast.core.record import Change, Kind, Record
from standfast.dashboard.audit.chunk import (
    CHUNKS_KEPT,
    MOST_ENTRIES,
    NEWEST,
    Chunk,
    fit,
    is_full,
    oldest_kept,
    read_chunk,
    read_place,
    write_place,
)
from standfast.dashboard.audit.entry import Entry
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store

PAGE = 100
"""Entries of a page, unless told otherwise."""

MOST_LOOKED_AT = 5000
"""Entries that are looked at for one page, however few of them are wanted."""

_AT_ONCE = 10
"""Chunks that one call reads, where most of their entries may not be wanted."""


class Page(msgspec.Struct, frozen=True):
    """Some of the trail, the newest first. `next` is where the next page begins, None at the end.

    `looked_at` entries were looked at for it, back to `since`: where few are wanted, a page may have few or none of
    them, and still have a next.
    """

    entries: tuple[Entry, ...]
    next: str | None
    looked_at: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class _Newest:
    record: Record | None
    chunk: Chunk
    is_full: bool


@errand
def write_down(verbs: Store, entry: Entry) -> Verbs[None]:
    """Add an entry to the trail, once, whoever else does so at the same time; or change what was written of it."""
    kept = fit(entry)
    newest: _Newest = yield from _read_newest(verbs)
    first = newest.chunk.number
    while True:
        *_, made = yield verbs.change_records(_added(newest, kept))
        if made:
            return
        newest = yield from _read_newest(verbs)
        if (yield from _has(verbs, newest, first, kept)):
            return


@errand
def read_trail(
    verbs: Store, before: str | None = None, *, limit: int = PAGE, who: str = "", what: str = ""
) -> Verbs[Page]:
    """Return a page of the trail; those of one person, of one operation or of all of a kind (`jobs`), if asked for.

    `before` is the `next` of the page before. Raises WrongRequestError where it is not.
    """
    newest: _Newest = yield from _read_newest(verbs)
    look = _Look(limit, who, what, oldest_kept(newest.chunk.number))
    number, below = min(read_place(before or f"{newest.chunk.number}.999"), (newest.chunk.number, MOST_ENTRIES))
    span = _AT_ONCE if who or what else 1
    while number >= look.oldest:
        numbers = range(number, max(number - span, look.oldest - 1), -1)
        chunks = yield from _read_chunks(verbs, newest, numbers)
        for each in numbers:
            if each in chunks and look.through(chunks[each], below):
                return look.page()
            below = MOST_ENTRIES
        number = numbers[-1] - 1
    return look.page()


class _Look:
    """What is found on the way from an entry to those before it."""

    def __init__(self, limit: int, who: str, what: str, oldest: int) -> None:
        self.oldest = oldest
        self._limit = limit
        self._who = who
        self._what = what
        self._found: list[Entry] = []
        self._looked_at = 0
        self._since: datetime | None = None
        self._next: str | None = None

    def through(self, chunk: Chunk, below: int) -> bool:
        """Look through a chunk from this index downward; tell whether it is enough."""
        for index in range(min(below, len(chunk.entries)) - 1, -1, -1):
            entry = chunk.entries[index]
            self._looked_at += 1
            self._since = entry.at
            if self._wants(entry):
                self._found.append(entry)
            if len(self._found) >= self._limit or self._looked_at >= MOST_LOOKED_AT:
                is_last = index == 0 and chunk.number == self.oldest
                self._next = None if is_last else write_place(chunk.number, index)
                return True
        return False

    def _wants(self, entry: Entry) -> bool:
        is_what = self._what in ("", entry.what) or entry.what.startswith(f"{self._what}.")
        return is_what and self._who in ("", entry.who)

    def page(self) -> Page:
        """Return what was found so far."""
        return Page(tuple(self._found), self._next, self._looked_at, self._since)


def _added(newest: _Newest, entry: Entry) -> Sequence[Change]:
    """Return the wish to add an entry: to the newest chunk, or, where it is full, as the first of a new one."""
    record, chunk = newest.record, newest.chunk
    if record is None:
        return [_change(NEWEST, None, Chunk(1, (entry,)))]
    if not newest.is_full:
        return [_change(NEWEST, record, Chunk(chunk.number, _with(chunk.entries, entry)))]
    return [
        Change(Kind.AUDIT, str(chunk.number), 0, str(uuid4()), record.body),
        Change(Kind.AUDIT, str(chunk.number + 1 - CHUNKS_KEPT), 1, str(uuid4()), None),
        _change(NEWEST, record, Chunk(chunk.number + 1, (entry,))),
    ]


def _with(entries: tuple[Entry, ...], entry: Entry) -> tuple[Entry, ...]:
    if any(each.id == entry.id for each in entries):
        return tuple(entry if each.id == entry.id else each for each in entries)
    return (*entries, entry)


def _change(name: str, record: Record | None, chunk: Chunk) -> Change:
    seen, after = (0, None) if record is None else (record.version, record.token)
    return Change(Kind.AUDIT, name, seen, str(uuid4()), msgspec.json.encode(chunk), after=after)


def _has(verbs: Store, newest: _Newest, first: int, entry: Entry) -> Verbs[bool]:
    """Tell whether an entry is, as it is now, in one of the chunks from `first` on."""
    for number in range(newest.chunk.number, first - 1, -1):
        chunks = yield from _read_chunks(verbs, newest, (number,))
        if any(entry in chunk.entries for chunk in chunks.values()):
            return True
    return False


def _read_newest(verbs: Store) -> Verbs[_Newest]:
    records: tuple[Record, ...] = yield verbs.records(Kind.AUDIT, (NEWEST,))
    if not records:
        return _Newest(None, Chunk(1), is_full=False)
    record = records[0]
    chunk = read_chunk(record)
    if chunk is None:
        return _Newest(record, (yield from _in_place_of_nonsense(verbs)), is_full=True)
    return _Newest(record, chunk, is_full(record, chunk))


def _in_place_of_nonsense(verbs: Store) -> Verbs[Chunk]:
    """Return what counts as the newest chunk where it cannot be read: it is laid aside like a full one."""
    records: tuple[Record, ...] = yield verbs.records(Kind.AUDIT)
    numbers = [int(record.name) for record in records if record.name.isdecimal()]
    return Chunk(max(numbers, default=0) + 1)


def _read_chunks(verbs: Store, newest: _Newest, numbers: Sequence[int]) -> Verbs[Mapping[int, Chunk]]:
    """Return those chunks that there are and that can be read, by number."""
    names = [str(number) for number in numbers if number != newest.chunk.number]
    records: Sequence[Record] = (yield verbs.records(Kind.AUDIT, names)) if names else ()
    read = [chunk for record in records if (chunk := read_chunk(record)) is not None]
    chunks = {chunk.number: chunk for chunk in read}
    return chunks if len(names) == len(numbers) else chunks | {newest.chunk.number: newest.chunk}
