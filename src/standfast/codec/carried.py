"""The trace that a job belongs to, carried in its payload: a key `trace` after the arguments, and none without one.

It holds what a propagator writes, with W3C's that is `traceparent` and `tracestate`. It is no argument: handlers do
not receive it, and releases that know nothing of it pass it over.
"""

import re
from collections.abc import Mapping

import msgspec

from standfast.codec.types import UNREADABLE

MOST = 4_096
"""Bytes of it that a payload carries; of more, only the `traceparent`."""

_KEY = b',"trace":{'
_PARENT = "traceparent"
_TRACE_ID = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_NO_TRACE = "0" * 32


class _Carrying(msgspec.Struct):
    trace: dict[str, str] = {}


_CARRYING = msgspec.json.Decoder(_Carrying)


def carrying(payload: bytes, carried: Mapping[str, str]) -> bytes:
    """Return a payload that was just encoded with what it is to carry; as it is, if that is nothing."""
    encoded = msgspec.json.encode(carried)
    if len(encoded) > MOST:
        alone = {_PARENT: carried[_PARENT]} if _PARENT in carried else {}
        return payload if alone == carried else carrying(payload, alone)  # one that is too long by itself is none
    return b'%b,"trace":%b}' % (payload[:-1], encoded) if carried else payload


def carried_in(payload: bytes) -> dict[str, str]:
    """Return what a payload carries; nothing where it cannot be read."""
    if payload.rfind(_KEY, -2 * MOST) < 0:  # it is at the end: a long payload is not read for nothing
        return {}
    try:
        return _CARRYING.decode(payload).trace
    except UNREADABLE:
        return {}


def trace_id_in(payload: bytes) -> str | None:
    """Return the id of the trace that a payload carries, as W3C writes it."""
    found = _TRACE_ID.fullmatch(carried_in(payload).get(_PARENT, ""))
    return found[1] if found is not None and found[1] != _NO_TRACE else None
