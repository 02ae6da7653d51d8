"""Reads JSON from files that anything may have damaged."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoded(content: bytes, kind: type[T]) -> T | None:
    """Return what a text says; None where it is not of this kind, or no text at all."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
