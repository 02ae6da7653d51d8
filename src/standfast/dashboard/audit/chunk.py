"""A stretch of the trail: what one record holds, and how much that may be. Pure.

    newest  number 7, grows by an entry at each change of its version
    6, 5 …  as they were when they were full: written once, never changed

Whether the newest is full depends on itself alone, not on what is to come: a full one never grows. So all who find
it full write down the same under its number, and it does not matter who comes first.
"""

import re
from uuid import uuid4

import msgspec

from standfast.codec.redaction import redact_text
from standfast.core.record import Record, read_body
from standfast.dashboard.audit.entry import Entry
from standfast.dashboard.refusals import WrongRequestError
from standfast.phrases import Phrase
from standfast.words import one_line

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
