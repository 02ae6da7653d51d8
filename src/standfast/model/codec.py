"""Values as JSON, through msgspec and pydantic: what can be carried, results, and the trace of a job."""

import marshal
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from operator import eq
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Never, NoReturn, Union, get_args, get_origin
from uuid import UUID

import msgspec
import msgspec.inspect

from standfast.errors import PayloadError, ResultEncodingError
from standfast.model.outcomes import Outcome
from standfast.model.pydantic_models import (
    adapted,
    field_names,
    holds_model,
    is_adapted,
    is_model,
    is_root_model,
    needs_pydantic,
    read_model,
    write_model,
)
from standfast.model.secrets import is_mark, parts_of

MAX_BYTES = 1024 * 1024
"""The largest payload, and the largest result, that is stored."""

UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding raises for a value that JSON cannot carry."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
"""What decoding raises for bytes that are not JSON, or not what was expected: a TypeError for a list in a set."""

MOST_DIGITS = 4300
"""The longest integer that is read back; its sign counts."""

_PLAIN = (str, int, bool, NoneType)


_SAMPLES: tuple[Any, ...] = (None, True, 1, 1.5, "", [], {})
"""What JSON has: a class of which none of these is an instance can never be received."""

_PLAIN_VALUES = (
    "use plain types, dataclasses, pydantic models or msgspec Structs (tagged ones in a union), or pass an id"
)

_INSTEAD: tuple[tuple[Any, str], ...] = (
    (PurePath, "pass str(path) and annotate it with str"),
    (dict, "pass a plain dict and annotate it with dict"),
    ((deque, range, Iterator, Awaitable), "pass what it gives as a list and annotate it with list"),
    ((type, Callable), "pass a name, as a str, and look it up in the handler"),
)
"""What to use instead of some classes that JSON does not carry, and of those made of them."""

_OTHERWISE = (
    "pass a str or another plain value made of it, a dataclass, a pydantic model or a msgspec Struct, or pass an id"
)


def to_json(value: Any) -> Any:
    """Return what stands for a value that msgspec does not know."""
    if is_model(type(value)):
        return write_model(value)
    raise TypeError(f"objects of type {type(value).__qualname__} have no JSON form")


def from_json(kind: Any, value: Any) -> Any:
    """Return the value of a type that msgspec does not know. Raises ValueError or TypeError."""
    if is_adapted(kind) or is_model(kind):
        return read_model(kind, value)
    if isinstance(kind, type) and isinstance(value, kind):  # object, or an abstract class that JSON values have
        return value
    raise TypeError(f"JSON cannot carry `{getattr(kind, '__qualname__', kind)}`")


ENCODER = msgspec.json.Encoder(enc_hook=to_json)


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return what reads JSON as this type. Raises TypeError where JSON cannot carry it."""
    return msgspec.json.Decoder(kind, dec_hook=from_json)


def plain_kinds(annotation: Any) -> frozenset[type]:
    """Return the types whose values surely arrive as they are under this annotation or form, without a look."""
    if annotation is Any or annotation is object:
        return frozenset(_PLAIN)
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return plain_kinds(inner) if all(map(is_mark, marks)) else frozenset()
    return frozenset(kind for kind in _PLAIN if any(kind is member for member in members_of(annotation)))


def form_of(annotation: Any) -> Any:
    """Return how values of an annotation are read: as itself, or as what stands for it where that takes pydantic.

    Raises TypeError, which says what to use instead, where JSON cannot carry any value of it.
    """
    for part in parts_of(annotation, models=False):
        if getattr(part, "__name__", "") in {"SecretStr", "SecretBytes"} and hasattr(part, "get_secret_value"):
            raise TypeError(f"`{part.__name__}` hides its value; annotate it with Annotated[str, Secret]")
    if needs_pydantic(annotation):
        return adapted(annotation)
    try:
        decoder_of(annotation)
    except (TypeError, RuntimeError) as error:
        if holds_model(annotation):
            return adapted(annotation)
        raise TypeError(f"{error}; {_PLAIN_VALUES}") from error
    origins = [get_origin(part) for part in parts_of(annotation, models=False)]
    for kind in _custom_kinds(annotation):
        if not is_model(kind) and (kind in origins or not _can_arrive(kind)):
            raise TypeError(f"`{kind.__qualname__}`; {_instead_of(kind)}")
    return annotation


def _custom_kinds(annotation: Any) -> Iterator[type]:
    """Yield the classes in an annotation that msgspec does not know."""
    nodes: list[msgspec.Struct] = [msgspec.inspect.type_info(annotation)]
    seen = set[int]()
    while nodes:
        node = nodes.pop()
        if isinstance(node, msgspec.inspect.CustomType):
            yield node.cls
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in msgspec.structs.astuple(node):
            parts = part if isinstance(part, tuple) else (part,)
            nodes.extend(each for each in parts if isinstance(each, msgspec.inspect.Type | msgspec.inspect.Field))


def _can_arrive(kind: type) -> bool:
    try:
        return any(isinstance(sample, kind) for sample in _SAMPLES)
    except TypeError:  # a protocol that cannot be asked for
        return False


def _instead_of(kind: type) -> str:
    if kind in {Iterable, Container}:
        return "pass a list and annotate it with list or Sequence"
    return next((words for known, words in _INSTEAD if issubclass(kind, known)), _OTHERWISE)


def holds_buffer(annotation: Any) -> bool:
    """Tell whether bytes may be received, which marshal does not tell from a bytearray."""
    return any(
        part is kind for part in parts_of(annotation, models=False) for kind in (bytes, bytearray, memoryview)
    )


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation alone."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


class Injected:
    """What a worker gives to a handler whose parameter is annotated with it: no argument of the job."""


def is_context(annotation: Any) -> bool:
    """Tell whether a parameter asks for the Context."""
    members = [each for each in members_of(annotation) if each is not NoneType]
    return len(members) == 1 and isinstance(members[0], type) and issubclass(members[0], Injected)


def stored_type(annotation: Any) -> Any:
    """Return what is stored of what a function returns: outcomes never are."""
    members = members_of(annotation)
    stored = tuple(each for each in members if not (isinstance(each, type) and issubclass(each, Outcome)))
    return Any if not stored or stored[0] in (Never, NoReturn) else Union[stored]  # noqa: UP007 - built from values


def error_line(error: Exception) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(str(error).split())


_GONE = object()
_NO_REFERENCES = 2
"""The version of marshal's format in which equal values are equal bytes: later ones have references."""

_OF_JSON = frozenset({dict, list, str, int, float, bool})

_ATOMS = frozenset({str, int, float, bool, NoneType, bytes, UUID, date, timedelta})
"""Types of which equal values are the same, with nothing inside."""


def round_trips(given: Any, received: Any, *, buffers: bool) -> bool:
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
            same = round_trips(value, received, buffers=self._buffers)
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
            f"the {what}, of type {type(value).__qualname__}, cannot be stored as JSON: {error_line(error)};"
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


# It holds what a propagator writes, with W3C's that is `traceparent` and `tracestate`. It is no argument: handlers do
# not receive it, and releases that know nothing of it pass it over.

MOST = 4_096
"""Bytes of it that a payload carries; of more, only the `traceparent`."""

_KEY = b',"trace":{'
_PARENT = "traceparent"
_TRACE_ID = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_NO_TRACE = "0" * 32


class _Carrying(msgspec.Struct):
    trace: dict[str, str] = {}


_CARRYING = msgspec.json.Decoder(_Carrying)


def add_trace_context(payload: bytes, carried: Mapping[str, str]) -> bytes:
    """Return a payload that was just encoded with what it is to carry; as it is, if that is nothing."""
    encoded = msgspec.json.encode(carried)
    if len(encoded) > MOST:
        alone = {_PARENT: carried[_PARENT]} if _PARENT in carried else {}
        return (
            payload if alone == carried else add_trace_context(payload, alone)
        )  # one that is too long by itself is none
    return b'%b,"trace":%b}' % (payload[:-1], encoded) if carried else payload


def read_trace_context(payload: bytes) -> dict[str, str]:
    """Return what a payload carries; nothing where it cannot be read."""
    if payload.rfind(_KEY, -2 * MOST) < 0:  # it is at the end: a long payload is not read for nothing
        return {}
    try:
        return _CARRYING.decode(payload).trace
    except UNREADABLE:
        return {}


def trace_id_in(payload: bytes) -> str | None:
    """Return the id of the trace that a payload carries, as W3C writes it."""
    found = _TRACE_ID.fullmatch(read_trace_context(payload).get(_PARENT, ""))
    return found[1] if found is not None and found[1] != _NO_TRACE else None
