"""What handlers return, as JSON."""

from typing import Any

import msgspec

from holdfast.codec.arrival import is_endless, leaves
from holdfast.codec.types import ENCODER, MAX_BYTES, UNENCODABLE, UNREADABLE, from_json
from holdfast.errors import PayloadError, ResultEncodingError


def encode_result(value: Any) -> bytes:
    """Return a handler's result as JSON. Raises ResultEncodingError if it cannot be stored."""
    if value is None:
        return b"null"
    try:
        encoded = ENCODER.encode(value)
        endless = b"null" in encoded and any(map(is_endless, leaves(value)))
    except UNENCODABLE as error:
        raise ResultEncodingError(
            f"the result, of type {type(value).__qualname__}, cannot be stored as JSON: {error};"
            " return plain values, dataclasses, pydantic models or msgspec Structs"
        ) from error
    if endless:
        raise ResultEncodingError(
            "the result has a float that is not finite, and JSON has no such number; return None or a text for it"
        )
    if len(encoded) > MAX_BYTES:
        raise ResultEncodingError(
            f"the result takes {len(encoded):,} bytes and at most {MAX_BYTES:,} are stored;"
            " keep it elsewhere and return a reference to it"
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
