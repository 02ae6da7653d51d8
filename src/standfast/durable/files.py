"""Files that jobs save: their names, and what a memo tells of one. The bytes are on a shelf, not in the store."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from standfast.core.memo import Memo
from standfast.errors import ArgumentsError, PayloadError

LONGEST_NAME = 100
MOST_NAME_BYTES = 200
"""A folder takes names of 255 bytes, and what tells one saving from another goes before it."""

_PREFIX = "file:"
_SEPARATORS = frozenset("/\\:")


class SavedFile(msgspec.Struct, frozen=True):
    """A file that a job has saved: where it is, how many bytes it has, and their SHA-256 in hexadecimal."""

    name: str
    path: Path
    size: int
    sha256: str


class Kept(msgspec.Struct, frozen=True):
    """What the store knows of a file. `place` is its path on the shelf, wherever that is on a machine."""

    name: str
    place: str
    size: int
    sha256: str
    saved_at: datetime


class _Body(msgspec.Struct, frozen=True):
    place: str
    size: int
    sha256: str
    saved_at: datetime


_body = msgspec.json.Decoder(_Body)


def check_name(name: str) -> str:
    """Return the name of a file. Refuses one that could mean a place elsewhere, or that no folder takes."""
    if not isinstance(name, str):
        raise ArgumentsError(f"the name of a file must be a text, not {type(name).__name__}")
    good = 1 <= len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip() and name[0] != "."
    if not good or _SEPARATORS & set(name) or len(name.encode(errors="replace")) > MOST_NAME_BYTES:
        raise ArgumentsError(
            f"{name[: LONGEST_NAME + 1]!r} cannot be the name of a file: that is 1 to {LONGEST_NAME} printable"
            " characters without '/', '\\' and ':', and does not begin with a dot"
        )
    return name


def file_memo(kept: Kept) -> Memo:
    """Return what is written down about a file."""
    return Memo(
        f"{_PREFIX}{kept.name}", msgspec.json.encode(_Body(kept.place, kept.size, kept.sha256, kept.saved_at))
    )


def files_among(memos: Iterable[Memo]) -> Mapping[str, Kept]:
    """Return the files that are told of among the memos of a job, by name. Raises PayloadError."""
    named = {memo.name.removeprefix(_PREFIX): memo.body for memo in memos if memo.name.startswith(_PREFIX)}
    return {name: _read(name, body) for name, body in sorted(named.items())}


def _read(name: str, body: bytes) -> Kept:
    try:
        told = _body.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError(f"what is stored about file {name!r} cannot be read: {error}") from error
    return Kept(name, told.place, told.size, told.sha256, told.saved_at)
