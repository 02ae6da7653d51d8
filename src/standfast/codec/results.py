"""What handlers return, as JSON: written only if it is read back as it was."""

from types import NoneType
from typing import Any

import msgspec

from standfast.codec.arrival import arrives, changed, float_for_decimal, is_endless, leaves
from standfast.codec.models import is_adapted
from standfast.codec.types import (
    ENCODER,
    MAX_BYTES,
    MOST_DIGITS,
    UNENCODABLE,
    UNREADABLE,
    decoder_of,
    form_of,
    from_json,
    holds_buffer,
    one_line,
    plain_kinds,
    stored_type,
)
from standfast.errors import PayloadError, ResultEncodingError


class Results:
    """What one task returns: encodes it, and refuses what would be read back as something else.

    `type` is what decode_result reads it as.
    """

    def __init__(self, annotation: Any = Any) -> None:
        """Raise TypeError where JSON cannot carry what the annotation says."""
        stored = stored_type(annotation)
        self.type = form_of(stored)
        self._plain = plain_kinds(self.type)
        if self.type is Any or self.type is float:
            self._plain |= {float}
        self._may_be_none = NoneType in self._plain
        self._decoder = decoder_of(self.type)
        self._buffers = holds_buffer(stored)

    def encode(self, value: Any) -> bytes:
        """Return a handler's result as JSON. Raises ResultEncodingError if it cannot be stored as it is."""
        if value is None and self._may_be_none:
            return b"null"
        encoded = encode_value(value, "result", "return", MAX_BYTES, self.type)
        if type(value) not in self._plain or (len(encoded) > MOST_DIGITS and type(value) is int):
            self._check(value, encoded)
        return encoded

    def _check(self, value: Any, encoded: bytes) -> None:
        try:
            received = self._decoder.decode(encoded)
            same = arrives(value, received, buffers=self._buffers)
        except Exception as error:
            raise ResultEncodingError(
                f"the result, of type {type(value).__qualname__}, does not fit the return annotation: {error};"
                " return what the annotation says, or correct it"
            ) from error
        if same:
            return
        if float_for_decimal(value, received):
            raise ResultEncodingError(
                "the result has a float for a Decimal, and a float is seldom exact; return a Decimal made of a"
                " text, as Decimal('0.1'), or an int"
            )
        raise ResultEncodingError(f"the result {changed(value, received, 'return')}")


def encode_result(value: Any) -> bytes:
    """Return a value that somebody reads as he likes. Raises ResultEncodingError if it cannot be stored."""
    return b"null" if value is None else encode_value(value, "result", "return", MAX_BYTES)


def encode_value(value: Any, what: str, use: str, limit: int, kind: Any = Any) -> bytes:
    """Return a value of the user's as JSON of at most `limit` bytes. Raises ResultEncodingError otherwise.

    `what` it is and the verb for how to `use` something else are words of that error. `kind` may be an adapter.
    """
    try:
        encoded = ENCODER.encode(kind.write(value) if is_adapted(kind) else value)
        endless = b"null" in encoded and any(map(is_endless, leaves(value)))
    except UNENCODABLE as error:
        raise ResultEncodingError(
            f"the {what}, of type {type(value).__qualname__}, cannot be stored as JSON: {one_line(error)};"
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
