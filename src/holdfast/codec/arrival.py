"""Whether a value arrives as it was given. Pure."""

import math
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from decimal import Decimal
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


def float_for_decimal(given: Any, received: Any) -> bool:
    """Tell whether a Decimal arrives, or one inside, where a float was given: that is exact by luck alone."""
    if isinstance(received, Decimal):
        return isinstance(given, float)
    if isinstance(given, list | tuple) and isinstance(received, list | tuple):
        return any(map(float_for_decimal, given, received))
    if isinstance(given, Mapping) and isinstance(received, Mapping):
        values = ((value, received.get(key)) for key, value in given.items())
        return _met_in_set(given.keys(), received.keys()) or any(float_for_decimal(*pair) for pair in values)
    if isinstance(given, AbstractSet) and isinstance(received, AbstractSet):
        return _met_in_set(given, received)
    names = field_names(type(given))
    return any(float_for_decimal(getattr(given, name, None), getattr(received, name, None)) for name in names)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values inside a value that have none inside themselves."""
    if isinstance(value, Mapping):
        inside: Any = (*value, *value.values())
    elif isinstance(value, list | tuple | AbstractSet):
        inside = value
    elif names := field_names(type(value)):
        inside = (getattr(value, name, None) for name in names)
    else:
        yield value
        return
    for each in inside:
        yield from leaves(each)


def is_endless(value: Any) -> bool:
    """Tell whether this is a float that JSON writes as null."""
    return isinstance(value, float) and not math.isfinite(value)


def is_no_number(value: Any) -> bool:
    """Tell whether this is a number that JSON does not have, and that does not arrive as a text either."""
    return is_endless(value) or (isinstance(value, Decimal) and value.is_nan())


def _met_in_set(given: AbstractSet[Any], received: AbstractSet[Any]) -> bool:
    """Tell whether a float equals what arrives as a Decimal: in a set that is how the two are found."""
    exact = {each for each in received if isinstance(each, Decimal)}
    return any(isinstance(each, float) and each in exact for each in given)


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
