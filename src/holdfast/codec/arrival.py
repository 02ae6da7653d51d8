"""Whether a value arrives as it was given. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.codec.types import field_names

_GONE = object()


def survives(given: Any, received: Any) -> bool:
    """Tell whether a value came through the round trip as it was; a tuple may arrive as a list.

    Equality is asked first. Where it says no, two values of one class may still be the same: it may have no
    `__eq__`, or a tuple inside. Then its fields decide.
    """
    if given == received:
        return True
    if isinstance(given, list | tuple) and isinstance(received, list | tuple):
        return len(given) == len(received) and all(map(survives, given, received))
    if isinstance(given, Mapping) and isinstance(received, Mapping):
        return given.keys() == received.keys() and all(survives(given[key], received[key]) for key in given)
    if isinstance(given, datetime) and isinstance(received, datetime):
        return _same_instant(given, received)
    return type(given) is type(received) and _same_fields(given, received)


def _same_instant(given: datetime, received: datetime) -> bool:
    """Tell whether two times are one: in the hour that a zone repeats, equality always says no."""
    if given.tzinfo is None or received.tzinfo is None or given.utcoffset() != received.utcoffset():
        return False
    return given.astimezone(UTC) == received.astimezone(UTC)


def _same_fields(given: Any, received: Any) -> bool:
    names = field_names(type(given))
    return bool(names) and all(
        survives(getattr(given, name, _GONE), getattr(received, name, _GONE)) for name in names
    )
