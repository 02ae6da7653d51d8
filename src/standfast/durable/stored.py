"""The bodies of the memos of steps and waits, as JSON."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from standfast.codec import encode_result
from standfast.durable.pages import check_size
from standfast.errors import PayloadError, ResultEncodingError, StepError


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is done: by which version of it, with which result, and whether in a loop of `ctx.resume`."""

    version: int
    result: msgspec.Raw
    in_loop: bool = False


class How(StrEnum):
    """How a wait ended."""

    SIGNAL = "signal"
    TIMEOUT = "timeout"


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wait that has begun: until when at the latest and, once it is over, how it ended."""

    until: datetime | None = None
    how: How | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


_done = msgspec.json.Decoder(Done)
_wait = msgspec.json.Decoder(Wait)


def encode_step(name: str, version: int, value: Any, *, in_loop: bool = False) -> bytes:
    """Return the memo of a step. Raises StepError if its result cannot be stored."""
    try:
        result = encode_result(value)
    except ResultEncodingError as error:
        raise StepError(f"step {name!r} ran, and its result cannot be kept: {error}") from error
    body = msgspec.json.encode(Done(version, msgspec.Raw(result), in_loop))
    check_size(f"step {name!r} ran, and its result cannot be kept: it", body)
    return body


def read_step(name: str, body: bytes) -> Done:
    """Return what is stored of a step that is done."""
    try:
        return _done.decode(body)
    except msgspec.DecodeError as error:
        raise PayloadError(f"what is stored of step {name!r} cannot be read: {error}") from error


def encode_wait(wait: Wait) -> bytes:
    """Return the memo of a wait."""
    return msgspec.json.encode(wait)


def read_wait(name: str, body: bytes) -> Wait:
    """Return a wait that has begun."""
    try:
        return _wait.decode(body)
    except msgspec.DecodeError as error:
        raise PayloadError(f"what is stored of the wait for {name!r} cannot be read: {error}") from error
