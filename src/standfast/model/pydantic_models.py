"""Pydantic: models, which of their fields were set, and types that only its adapters can read. Never imported here.

A model is known by its members, so that pydantic is loaded only by those who use it. It is written with all its
fields. Beside them, under `__unset__`, are the names of those that nobody has set, if there are any.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, ClassVar

import msgspec

from standfast.model.secrets import parts_of

UNSET_FIELDS = "__unset__"
"""The key under which a model's JSON names the fields that were not set."""

_MARK = f'"{UNSET_FIELDS}"'.encode()
_HOMES = frozenset({"annotated_types", "pydantic"})


def is_model(kind: Any) -> bool:
    """Tell whether a class is a pydantic model."""
    return hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_validate_json")


def is_root_model(kind: Any) -> bool:
    """Tell whether a pydantic model is its one field, and not an object with fields."""
    return bool(getattr(kind, "__pydantic_root_model__", False))


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass, a Struct, a pydantic model or a class of attrs; of any other type, none."""
    if is_model(kind):
        return tuple(kind.model_fields)  # type: ignore[attr-defined] # it is a model
    if is_dataclass(kind):
        return tuple(field.name for field in dataclass_fields(kind))
    if attributes := getattr(kind, "__attrs_attrs__", ()):
        return tuple(each.name for each in attributes)
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return names


class _TakesAll(type):
    """Lets msgspec take whatever an adapter has read."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Adapted(metaclass=_TakesAll):
    """Stands for an annotation that pydantic writes and reads: each has a subclass of its own."""

    adapter: ClassVar[Any]

    @classmethod
    def write(cls, value: Any) -> msgspec.Raw:
        """Return a value as JSON. Raises ValueError or TypeError."""
        try:
            dumped = cls.adapter.dump_json(value, by_alias=True, round_trip=True, warnings=False)
        except Exception as error:
            raise TypeError(first_problem(error)) from error
        return msgspec.Raw(_marked(dumped, value))


def adapted(annotation: Any) -> type[Adapted]:
    """Return what stands for an annotation. Raises TypeError where pydantic cannot read it, or is not installed."""
    if any(isinstance(part, msgspec.Meta) for part in parts_of(annotation, models=False)):
        raise TypeError("it mixes msgspec.Meta with what only pydantic can read; use one of the two")
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415 - only for those who use it
    except ImportError as error:
        raise TypeError(
            "only pydantic can check its constraints, and is not installed; install it, or use msgspec.Meta"
        ) from error
    try:
        adapter = TypeAdapter(annotation)
    except NameError:  # a name that the module defines further down
        raise
    except Exception as error:
        said = str(error).partition("\n")[0].partition(". ")[0]
        raise TypeError(
            f"only pydantic can read it, and says: {said}; use plain types, dataclasses and pydantic models with"
            " pydantic's constraints, or msgspec Structs with msgspec.Meta"
        ) from error
    return type("Adapted", (Adapted,), {"adapter": adapter})


def needs_pydantic(annotation: Any) -> bool:
    """Tell whether an annotation has constraints or classes that only pydantic knows, outside of its models."""
    return any(map(_only_pydantic_knows, parts_of(annotation, models=False)))


def is_field(value: Any) -> bool:
    """Tell whether a value is what pydantic's `Field()` returns."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic.")


def holds_model(annotation: Any) -> bool:
    """Tell whether a pydantic model is a part of an annotation."""
    return any(map(is_model, parts_of(annotation, models=False)))


def _only_pydantic_knows(part: Any) -> bool:
    if is_model(part):
        return False
    if hasattr(part, "__get_pydantic_core_schema__") or "__pydantic_core_schema__" in getattr(part, "__dict__", ()):
        return True
    homes = {kind.__module__.partition(".")[0] for kind in type(part).__mro__}
    return not isinstance(part, type) and not _HOMES.isdisjoint(homes)


def write_model(value: Any) -> msgspec.Raw:
    """Return a model as JSON. Raises ValueError or TypeError."""
    dumped: str = value.model_dump_json(by_alias=True, round_trip=True, warnings="error")
    return msgspec.Raw(_marked(dumped.encode(), value))


def read_model(kind: Any, value: Any) -> Any:
    """Return the model, or what an adapter reads, of a JSON value. Raises ValueError."""
    of_model = not is_adapted(kind)
    validate = kind.model_validate_json if of_model else kind.adapter.validate_json
    try:
        return _restored(msgspec.json.encode(value), validate)
    except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
        problem = first_problem(error)
    raise ValueError(f"`{kind.__qualname__}` refuses it: {problem}" if of_model else problem)


def is_adapted(kind: Any) -> bool:
    """Tell whether a class stands for an annotation that pydantic reads."""
    return type(kind) is _TakesAll


def first_problem(error: Exception) -> str:
    """Return the first thing that pydantic has to say, in one line and without the value."""
    try:
        first = error.errors(include_url=False, include_input=False)[0]  # type: ignore[attr-defined] # or not pydantic's
    except AttributeError:
        return f"{type(error).__qualname__}: {' '.join(str(error).split())}"
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def without_marks(value: Any) -> Any:
    """Return a JSON value without what says which fields were not set."""
    if isinstance(value, dict):
        return {key: without_marks(each) for key, each in value.items() if key != UNSET_FIELDS}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


def _marked(dumped: bytes, value: Any) -> bytes:
    """Return JSON with the names of the fields that were not set, at each model that has some."""
    tree, marked = msgspec.json.decode(dumped), False
    for place, model in _models_in(tree, value):
        if unset := type(model).model_fields.keys() - model.model_fields_set:
            place[UNSET_FIELDS] = sorted(unset)
            marked = True
    return msgspec.json.encode(tree) if marked else dumped


def _restored(encoded: bytes, validate: Callable[[bytes], Any]) -> Any:
    """Return what the JSON says, its models with the fields set that were."""
    if _MARK not in encoded:
        return validate(encoded)
    tree = msgspec.json.decode(encoded)
    value = validate(msgspec.json.encode(without_marks(tree)))
    for place, model in _models_in(tree, value):
        if unset := place.get(UNSET_FIELDS):
            object.__setattr__(model, "__pydantic_fields_set__", model.model_fields_set.difference(unset))
    return value


def _models_in(tree: Any, value: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the models in a value, each with its JSON object; none of sets, which have no order."""
    inside: list[tuple[Any, Any]] = []
    kind = type(value)
    if isinstance(value, list | tuple) and isinstance(tree, list):
        inside = list(zip(tree, value, strict=False))
    elif isinstance(value, Mapping) and isinstance(tree, dict):
        if all(isinstance(key, str) for key in value):
            inside = [(tree.get(key), each) for key, each in value.items()]
        else:
            inside = list(zip(tree.values(), value.values(), strict=False))
    elif is_root_model(kind):
        inside = [(tree, value.root)]
    elif isinstance(tree, dict):
        if is_model(kind):
            yield tree, value
        inside = [(tree.get(key), getattr(value, name, None)) for name, key in _keys(kind, value)]
    for each in inside:
        yield from _models_in(*each)


def _keys(kind: Any, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass, a Struct or a model, and the keys that they have in JSON."""
    if is_model(kind):
        for name, field in kind.model_fields.items():
            yield name, field.serialization_alias or field.alias or name
        for name in value.model_extra or ():
            yield name, name
    else:
        names = field_names(kind)
        yield from zip(names, getattr(kind, "__struct_encode_fields__", names), strict=True)
