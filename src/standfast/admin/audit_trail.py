"""The audit: a chain of chunks of what people did.

One thing that somebody did.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from standfast.admin.operation import WrongRequestError
from standfast.model.display import one_line
from standfast.model.phrases import Phrase
from standfast.model.records import Change, Kind, Record, read_body
from standfast.model.redaction import is_secret_name, redact_text
from standfast.model.secrets import MASK
from standfast.stores.contract import Store
from standfast.stores.verb import Verbs, procedure


class Entry(msgspec.Struct, frozen=True):
    """Who did what, when by the store's time, and how it was before and after, as far as that can be told.

    `asked` is what the operation was asked, without anything secret; `error` says why it was not done. `id` is
    given when it is written down: that is how it is told from others, and not written twice. `so_far` is for the
    operation itself: where it goes on, if it is not done.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    who: str
    what: str
    asked: Mapping[str, str] = {}
    before: str | None = None
    after: str | None = None
    error: str | None = None
    by: str = "page"
    id: str = ""
    so_far: str = ""


# A stretch of the trail: what one record holds, and how much that may be. Pure.
#
#     newest  number 7, grows by an entry at each change of its version
#     6, 5 …  as they were when they were full: written once, never changed
#
# Whether the newest is full depends on itself alone, not on what is to come: a full one never grows. So all who find
# it full write down the same under its number, and it does not matter who comes first.

NEWEST = "newest"
"""The name of the record that grows; the others are named by their numbers."""

MOST_ENTRIES = 100
"""Entries in one chunk."""

FULL = 36 * 1024
"""Bytes with which a chunk is full. The largest entry fits into what is left to 64 KiB."""

CHUNKS_KEPT = 1000
"""So many chunks are kept: at most 100,000 entries."""

_MOST_FIELDS = 16
_LONGEST_NAME = 40
_LONGEST_FIELD = 200
_LONGEST_TEXT = 1000
_LONGEST_WHO = 100
_READ_AHEAD = 8
"""How much more of a text is searched for secrets than is kept of it, so that none is cut before it is found."""

_PLACE = re.compile(r"(\d{1,9})\.(\d{1,3})", re.ASCII)


class Chunk(msgspec.Struct, frozen=True):
    """Entries that follow each other, the oldest first. Numbers begin with 1."""

    number: int
    entries: tuple[Entry, ...] = ()


def read_chunk(record: Record) -> Chunk | None:
    """Return what a record holds; None where somebody wrote nonsense into it."""
    return read_body(record, Chunk)


def is_full(record: Record, chunk: Chunk) -> bool:
    """Tell whether nothing is added to a chunk any more."""
    return len(chunk.entries) >= MOST_ENTRIES or len(record.body) >= FULL


def oldest_kept(newest: int) -> int:
    """Return the number of the oldest chunk that is kept beside this newest one."""
    return max(1, newest - CHUNKS_KEPT + 1)


def write_place(number: int, index: int) -> str:
    """Return the place of an entry in the trail, which stays what it is when others come."""
    return f"{number}.{index}"


def read_place(text: str) -> tuple[int, int]:
    """Return the number of a chunk and which of its entries is meant. Raises WrongRequestError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise WrongRequestError(Phrase("refusal.no_place", text=repr(one_line(text, 40))))
    return int(found[1]), int(found[2])


def fit(entry: Entry) -> Entry:
    """Return an entry as it is kept: with an id, of one line each, without what looks secret, and not too long."""
    asked = {
        _text(name, _LONGEST_NAME): _text(value, _LONGEST_FIELD)
        for name, value in list(entry.asked.items())[:_MOST_FIELDS]
    }
    return msgspec.structs.replace(
        entry,
        id=entry.id or uuid4().hex,
        who=_text(entry.who, _LONGEST_WHO),
        what=_text(entry.what, _LONGEST_WHO),
        by=_text(entry.by, _LONGEST_NAME),
        asked=asked,
        before=_text_or_none(entry.before),
        after=_text_or_none(entry.after),
        error=_text_or_none(entry.error),
    )


def _text_or_none(text: str | None) -> str | None:
    return None if text is None else _text(text, _LONGEST_TEXT)


def _text(text: str, limit: int) -> str:
    return one_line(redact_text(text[: _READ_AHEAD * limit]), limit)


# What was asked, in words that may be kept: never what may be secret. Pure.
#
# Arguments of jobs can be anything, and a secret among them is known by its task only, which the dashboard does not
# import. So of whatever may carry arguments only the names are told; a field says otherwise by
# `Annotated[str, TOLD]` or `Annotated[str, NAMES_ONLY]`.

TOLD = msgspec.Meta(extra={"told": True})
"""Marks a field that is told as it is, whatever its name: nothing secret can be in it."""

NAMES_ONLY = msgspec.Meta(extra={"told": False})
"""Marks a field that may carry something secret."""

CARRIERS = frozenset(
    {
        "args",
        "arguments",
        "kwargs",
        "payload",
        "value",
        "values",
        "data",
        "body",
        "result",
        "params",
        "template",
        "metadata",
    }
)
"""Names of fields that carry what belongs to users."""

_PLAIN = str | int | float | datetime | timedelta | Enum
_HARMLESS = frozenset({"key", "next_key"})
"""The key of a job is its name among others, and no key to anything."""


def told(asked: msgspec.Struct) -> Mapping[str, str]:
    """Return what was asked in words, as far as it says anything; what may be secret by its names only."""
    return dict(_fields(asked, ""))


def _fields(asked: msgspec.Struct, within: str) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(asked):
        value = getattr(asked, field.name)
        if value is None or callable(value) or value == field.default or value in ("", (), [], {}, frozenset()):
            continue
        mark = _mark(field.type)
        if isinstance(value, msgspec.Struct) and mark is not False:
            yield from _fields(value, f"{within}{field.name}.")
        else:
            shown = not _may_be_secret(field.name) if mark is None else mark
            yield within + field.name, (_words(value) if shown else _names(value))


def _mark(annotation: Any) -> bool | None:
    """Return what an annotation says about being told; None where it says nothing."""
    for part in getattr(annotation, "__metadata__", ()):
        if isinstance(part, msgspec.Meta) and "told" in (part.extra or {}):
            return bool((part.extra or {})["told"])
    return None


def _may_be_secret(name: str) -> bool:
    return name in CARRIERS or (is_secret_name(name) and name not in _HARMLESS)


def _words(value: Any) -> str:
    """Return a value, if it is plain or several that are; of anything else the names."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, _PLAIN):
        return str(value)
    if isinstance(value, tuple | list | set | frozenset) and all(isinstance(each, _PLAIN) for each in value):
        return ", ".join(_words(each) for each in value)
    return _names(value)


def _names(value: Any) -> str:
    """Return the names that a mapping has, also one that is JSON, and nothing of what they stand for."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, msgspec.Raw | bytes | str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return MASK
    return ", ".join(f"{name}={MASK}" for name in value) if isinstance(value, Mapping) and value else MASK


# What happens again and again is written down seldom: the first time, the tenth, the hundredth and so on.
#
# So a trail tells of an attack, and is not filled by it. After a while without any, the next is a first one again.

FORGIVEN = 600.0
"""Seconds without one after which the next is a first one again."""

MOST_KEPT = 100
"""So many are told apart at the same time; more are counted together."""

OTHERS = "others"
"""What those are counted as that are counted together."""


@dataclass(slots=True)
class _Counted:
    times: int
    last_at: float


class RepeatSampler:
    """Counts what is alike."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._counted: OrderedDict[Hashable, _Counted] = OrderedDict()

    def count(self, what: Hashable) -> tuple[Hashable, int]:
        """Count one more; return as what it was counted, and how many there were of it."""
        now = self._ticks()
        while self._counted and now - next(iter(self._counted.values())).last_at >= FORGIVEN:
            self._counted.popitem(last=False)
        key = what if what in self._counted or len(self._counted) < MOST_KEPT else OTHERS
        found = self._counted.setdefault(key, _Counted(0, 0.0))
        found.times, found.last_at = found.times + 1, now
        self._counted.move_to_end(key)
        return key, found.times


def is_told(times: int) -> bool:
    """Tell whether this time it is written down."""
    return str(times).strip("0") == "1"


# The trail in the store: who did what, the newest first. It only grows, and its oldest end is forgotten.
#
# Whoever adds to it compares versions, and tries again where somebody else was faster. An answer that was lost is no
# reason to write twice: an entry is looked for before it is tried again. What takes long is written down when it
# begins and again, by the same id, as it goes on and when it ends: in place of what was there, while its chunk grows.

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


@procedure
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


@procedure
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
