"""How far a job got, as its memo has it: JSON, of a version that only code of the same version reads."""

from enum import StrEnum
from typing import Any, Literal

import msgspec

from standfast.codec.results import encode_value
from standfast.core.memo import MEMO_LIMIT
from standfast.errors import ArgumentsError, CursorError, PayloadError, ResultEncodingError
from standfast.policy.reading import is_int

CURSOR = "cursor"
"""The name of the memo of `ctx.cursor`; those of `ctx.resume` have a name of their own after it."""

LONGEST_NAME = 100


class By(StrEnum):
    """How `ctx.resume` finds the item after which it goes on."""

    KEY = "key"
    INDEX = "index"


class OnVersion(StrEnum):
    """What becomes of a cursor that was saved under another version."""

    RAISE = "raise"
    RESTART = "restart"


OnVersionWord = Literal["raise", "restart"]


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cursor. Of `ctx.resume` it is the key of the last item that is done, and how many are done."""

    version: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    by: By | None = None
    done: int = 0


_position = msgspec.json.Decoder(Position)


def memo_of(name: str) -> str:
    """Return the name of the memo of a `ctx.resume` of this name."""
    if not name or ":" in name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ArgumentsError(
            f"a name for ctx.resume has 1 to {LONGEST_NAME} printable characters and no colon, not {name!r}"
        )
    return f"{CURSOR}:{name}"


def encode(what: str, value: Any) -> bytes:
    """Return a cursor's value as JSON. Raises CursorError, which names its type, if it cannot be stored."""
    try:
        return encode_value(value, what, "use", MEMO_LIMIT)
    except ResultEncodingError as error:
        raise CursorError(str(error)) from error.__cause__


def to_bytes(position: Position) -> bytes:
    """Return a cursor as its memo has it. Raises CursorError if it is too large."""
    body = msgspec.json.encode(position)
    if len(body) > MEMO_LIMIT:
        raise CursorError(
            f"the cursor takes {len(body):,} bytes and at most {MEMO_LIMIT:,} are stored; save what is needed to"
            " find the place again, and keep the rest elsewhere"
        )
    return body


def from_bytes(name: str, body: bytes) -> Position:
    """Return what a memo has of a cursor. Raises PayloadError if it is none."""
    try:
        return _position.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError(f"what is stored of {name} cannot be read: {error}") from error


def check_version(version: int) -> None:
    """Refuse what is no version."""
    if not is_int(version) or version < 1:
        raise ArgumentsError(f"version must be a whole number, 1 or more, not {version!r}")


def check_on_version(word: str) -> OnVersion:
    """Return what becomes of a cursor of another version. Refuses what is no such word."""
    try:
        return OnVersion(word)
    except ValueError:
        raise ArgumentsError(f'on_version must be "raise" or "restart", not {word!r}') from None


def other_version(name: str, saved: int, version: int) -> CursorError:
    """Return the error of a cursor that other code has saved."""
    return CursorError(
        f"{name} was saved under version {saved}, and this code has version {version}: it is not used. Pass"
        ' on_version="restart" to begin anew with such jobs, or run them with the code of that version'
    )
