"""What JSON carries of Python's types: msgspec's own, and pydantic's, which models.py sees to."""

from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Never, NoReturn, Union, get_args, get_origin

import msgspec
import msgspec.inspect

from standfast.codec.models import (
    adapted,
    holds_model,
    is_adapted,
    is_model,
    needs_pydantic,
    read_model,
    write_model,
)
from standfast.codec.secrets import is_mark, parts_of
from standfast.core.outcome import Outcome

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


class Supplied:
    """What a worker gives to a handler whose parameter is annotated with it: no argument of the job."""


def is_context(annotation: Any) -> bool:
    """Tell whether a parameter asks for the Context."""
    members = [each for each in members_of(annotation) if each is not NoneType]
    return len(members) == 1 and isinstance(members[0], type) and issubclass(members[0], Supplied)


def stored_type(annotation: Any) -> Any:
    """Return what is stored of what a function returns: outcomes never are."""
    members = members_of(annotation)
    stored = tuple(each for each in members if not (isinstance(each, type) and issubclass(each, Outcome)))
    return Any if not stored or stored[0] in (Never, NoReturn) else Union[stored]  # noqa: UP007 - built from values


def one_line(error: Exception) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(str(error).split())
