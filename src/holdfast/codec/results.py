"""What handlers return, as JSON."""

from typing import Any

import msgspec

from holdfast.codec.arrival import is_endless, leaves
from holdfast.codec.types import ENCODER, MAX_BYTES, UNENCODABLE, UNREADABLE, from_json
from holdfast.errors import PayloadError, ResultEncodingError


def encode_result(value: Any) -> bytes:
    """Return a handler's result as JSON. Raises ResultEncodingError if it cannot be stored."""
    return b"null" if value is None else encode_value(value, "result", "return", MAX_BYTES)


def encode_value(value: Any, what: str, use: str, limit: int) -> bytes:
    """Return a value of the user's as JSON of at most `limit` bytes. Raises ResultEncodingError otherwise.

    `what` it is and the verb for how to `use` something else are words of that error.
    """
    try:
        encoded = ENCODER.encode(value)
        endless = b"null" in encoded and any(map(is_endless, leaves(value)))
    except UNENCODABLE as error:
        raise ResultEncodingError(
            f"the {what}, of type {type(value).__qualname__}, cannot be stored as JSON: {error};"
            f" {use} plain values, dataclasses, pydantic models or msgspec Structs"
        ) from error
    if endless:
        raise ResultEncodingError(
            f"the {what} has a float that is not finite, and JSON has no such number; {use} None or a text for it"
        )
    if len(encoded) > limit:
        raise ResultEncodingError(
            f"the {what} takes {len(encoded):,} bytes and at most {limit:,} are stored;"
            f" keep it elsewhere and {use} a reference to it"
        )
    return encoded


def decode_result(encoded: bytes, type: Any = Any) -> Any:  # noqa: A002 - the word that msgspec uses too
    """Return a stored result as `type`. Raises PayloadError if it is something else."""
    try:
        return msgspec.json.decode(encoded, type=type, dec_hook=from_json)
    except UNREADABLE as error:
        raise PayloadError(
            f"the stored result does not fit the task's return annotation: {error}; correct the annotation"
        ) from error
