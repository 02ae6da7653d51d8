"""Whether a value arrives as it was given. Pure."""

import marshal
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from operator import eq
from types import NoneType
from typing import Any
from uuid import UUID

from standfast.codec.models import field_names, is_model, is_root_model

_GONE = object()
_NO_REFERENCES = 2
"""The version of marshal's format in which equal values are equal bytes: later ones have references."""

_OF_JSON = frozenset({dict, list, str, int, float, bool})

_ATOMS = frozenset({str, int, float, bool, NoneType, bytes, UUID, date, timedelta})
"""Types of which equal values are the same, with nothing inside."""


def arrives(given: Any, received: Any, *, buffers: bool) -> bool:
    """Tell whether a value came through the round trip as it was, and of its type, all the way down.

    `buffers` says that bytes may be received. Where they cannot, marshal compares plain values quickly: it writes
    equal bytes only for equal values of the same built-in types, and refuses all other types, subclasses too.
    """
    try:
        if not buffers and marshal.dumps(given, _NO_REFERENCES) == marshal.dumps(received, _NO_REFERENCES):
            return True
    except ValueError:
        pass
    try:
        return survives(given, received)
    except ArithmeticError:  # a signalling NaN, which cannot even be compared
        return False


def survives(given: Any, received: Any) -> bool:
    """Tell whether a value is the same and of the same type; a tuple may be a list, and an int another number."""
    kind = type(given)
    if kind is not type(received):
        return _widened(given, received)
    if kind in _ATOMS:
        return bool(given == received)
    for kinds, same in _INSIDE:
        if isinstance(given, kinds):
            return same(given, received)
    return _same_fields(given, received) if field_names(kind) else bool(given == received)


def _widened(given: Any, received: Any) -> bool:
    if type(given) is tuple and type(received) is list:
        return _same_items(given, received)
    return type(given) is int and type(received) in {float, Decimal} and bool(given == received)


def _same_items(given: Sequence[Any], received: Sequence[Any]) -> bool:
    kinds = list(map(type, given))
    if kinds == list(map(type, received)) and _ATOMS.issuperset(kinds):  # quick, where there are many
        return all(map(eq, given, received))
    return len(given) == len(received) and all(map(survives, given, received))


def _same_entries(given: Mapping[Any, Any], received: Mapping[Any, Any]) -> bool:
    if getattr(given, "default_factory", None) is not getattr(received, "default_factory", None):
        return False
    if list(given) != list(received):
        own = {key: key for key in received}
        if given.keys() != own.keys():
            return False
        received = {own[key]: received[key] for key in given}  # in the order of those given
    return _same_items(list(given), list(received)) and _same_items([*given.values()], [*received.values()])


def _same_queue(given: deque[Any], received: deque[Any]) -> bool:
    return given.maxlen == received.maxlen and _same_items(list(given), list(received))


def _same_members(given: AbstractSet[Any], received: AbstractSet[Any]) -> bool:
    own = {each: each for each in received}
    return len(given) == len(own) and all(each in own and survives(each, own[each]) for each in given)


def _same_time(given: Any, received: Any) -> bool:
    """Tell whether two times are one: of a zone the offset is kept, of a time without one no fold."""
    if given.tzinfo is None or received.tzinfo is None:
        return bool(given == received) and given.tzinfo is received.tzinfo
    if given.utcoffset() is None or given.utcoffset() != received.utcoffset():
        return False
    if isinstance(given, datetime):
        return bool(given.astimezone(UTC) == received.astimezone(UTC))
    return bool(given == received)


def _same_fields(given: Any, received: Any) -> bool:
    """Tell whether two objects of one class have the same in them, and two models the same fields set."""
    if is_model(type(given)) and not (
        _same_set(given, received) and survives(given.model_extra, received.model_extra)
    ):
        return False
    return all(
        survives(getattr(given, name, _GONE), getattr(received, name, _GONE)) for name in field_names(type(given))
    )


def _same_set(given: Any, received: Any) -> bool:
    """Tell whether the same fields of two models were set; the one field of a root model always is."""
    return is_root_model(type(given)) or bool(given.model_fields_set == received.model_fields_set)


_INSIDE: tuple[tuple[Any, Callable[[Any, Any], bool]], ...] = (
    ((list, tuple), _same_items),
    (Mapping, _same_entries),
    (AbstractSet, _same_members),
    (deque, _same_queue),
    ((datetime, time), _same_time),
)


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


def changed(given: Any, received: Any, use: str, *, hidden: bool = False) -> str:
    """Return what a value would become, and what to do, in words of those who `pass` or `return` it."""
    verb, where = ("arrive", "the parameter") if use == "pass" else ("be read back", "the return type")
    was, would = type(given).__qualname__, type(received).__qualname__
    shown = "" if hidden else f" {received!r:.80}"
    if was == would:
        return (
            f"would not {verb} as it was given: something in it, or which fields were set, would change, to{shown};"
            f" {use} values of exactly the annotated types, which validators leave as they are"
        )
    if is_model(type(given)) and is_model(type(received)) and not isinstance(given, type(received)):
        remedy = (
            f"{use} one of the annotated models, and give those that look alike a field that tells them apart, as"
            " kind: Literal['cat']"
        )
    elif isinstance(given, type(received)):
        remedy = f"{use} a plain {would}, or annotate {where} with {was}"
    elif type(given) in _OF_JSON:
        article = "an" if would[0] in "aeioAEIO" else "a"
        remedy = f"{use} {article} {would}{_made_of_json(received) or f', or annotate {where} with {was}'}"
    else:
        remedy = f"annotate {where} with the type that you {use}, or {use} plain JSON values"
    return f"was given as {was} but would {verb} as {would}{shown}; {remedy}"


def _made_of_json(received: Any) -> str:
    """Return how a value of this type is made of a `value` that JSON has, where that is the same for all."""
    kind = type(received)
    if is_model(kind):
        return f": {kind.__qualname__}.model_validate(value)"
    return f": {kind.__qualname__}(value)" if isinstance(received, Enum) or _is_pydantics(kind) else ""


def _is_pydantics(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {"pydantic", "pydantic_core"}


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
