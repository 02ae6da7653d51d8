"""What JSON carries of Python's types: msgspec's own, and pydantic models, which are never imported here.

A pydantic model is known by its members, so that pydantic is loaded only by those who use it.
"""

from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import msgspec.inspect

from holdfast.codec.secrets import is_mark
from holdfast.core.outcome import Outcome

MAX_BYTES = 1024 * 1024
"""The largest payload, and the largest result, that is stored."""

UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding raises for a value that JSON cannot carry."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not JSON, or not what was expected."""

_PLAIN = (str, int, bool, NoneType)


def is_model(kind: Any) -> bool:
    """Tell whether a class is a pydantic model."""
    return hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_validate_json")


def to_json(value: Any) -> Any:
    """Return what stands for a value that msgspec does not know."""
    if is_model(type(value)):
        dumped: str = value.model_dump_json(by_alias=True, round_trip=True, warnings="error")
        return msgspec.Raw(dumped.encode())
    raise TypeError(f"objects of type {type(value).__qualname__} have no JSON form")


def from_json(kind: Any, value: Any) -> Any:
    """Return the value of a type that msgspec does not know. Raises ValueError or TypeError."""
    if not is_model(kind):
        if isinstance(kind, type) and isinstance(value, kind):  # object, or an abstract class that JSON values have
            return value
        raise TypeError(f"JSON cannot carry `{getattr(kind, '__qualname__', kind)}`")
    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
        problem = _first_problem(error)
    raise ValueError(f"`{kind.__qualname__}` refuses it: {problem}")


ENCODER = msgspec.json.Encoder(enc_hook=to_json)


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return what reads JSON as this type. Raises TypeError where JSON cannot carry it."""
    return msgspec.json.Decoder(kind, dec_hook=from_json)


def plain_kinds(annotation: Any) -> frozenset[type]:
    """Return the types whose values surely arrive as they are under this annotation, without a look."""
    if annotation is Any or annotation is object:
        return frozenset(_PLAIN)
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return plain_kinds(inner) if all(map(is_mark, marks)) else frozenset()
    return frozenset(kind for kind in _PLAIN if any(kind is member for member in members_of(annotation)))


def holds_decimal(annotation: Any) -> bool:
    """Tell whether a Decimal may be received, or be inside of what is; pydantic models see to their own."""
    nodes: list[msgspec.Struct] = [msgspec.inspect.type_info(annotation)]
    seen = set[int]()
    while nodes:
        node = nodes.pop()
        if isinstance(node, msgspec.inspect.DecimalType):
            return True
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in msgspec.structs.astuple(node):
            parts = part if isinstance(part, tuple) else (part,)
            nodes.extend(each for each in parts if isinstance(each, msgspec.inspect.Type | msgspec.inspect.Field))
    return False


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation alone."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


class Supplied:
    """What a worker gives to a handler whose parameter is annotated with it: no argument of the job."""


def is_context(annotation: Any) -> bool:
    """Tell whether a parameter asks for the Context."""
    members = [each for each in members_of(annotation) if each is not NoneType]
    return len(members) == 1 and isinstance(members[0], type) and issubclass(members[0], Supplied)


def result_type_of(annotation: Any) -> Any:
    """Leave out the outcomes, which are never stored; fall back to Any for what cannot be read back."""
    members = members_of(annotation)
    stored = tuple(each for each in members if not (isinstance(each, type) and issubclass(each, Outcome)))
    meant = Union[stored] if stored else Any  # noqa: UP007 - built from values
    try:
        decoder_of(meant)
    except TypeError:
        return Any
    return meant


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass, a Struct or a pydantic model; of any other type, none."""
    if is_model(kind):
        return tuple(kind.model_fields)  # type: ignore[attr-defined] # it is a model
    if is_dataclass(kind):
        return tuple(field.name for field in dataclass_fields(kind))
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return names


def one_line(error: Exception) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(str(error).split())


def _first_problem(error: Exception) -> str:
    """Return the first thing that pydantic has to say, in one line and without the value."""
    try:
        first = error.errors(include_url=False, include_input=False)[0]  # type: ignore[attr-defined] # or not pydantic's
    except AttributeError:
        return f"{type(error).__qualname__}: {one_line(error)}"
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
