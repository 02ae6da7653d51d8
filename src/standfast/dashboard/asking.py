"""From fields of a URL or a form, or from JSON, to what an operation is asked. All that is wrong is said."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from standfast.dashboard.fitting import unfit, within
from standfast.dashboard.refusals import WrongRequestError
from standfast.phrases import Phrase

Asked = TypeVar("Asked", bound=msgspec.Struct)

DEEPEST = 64
"""So deep JSON may be nested."""

_SEVERAL = (inspect.VarTupleType, inspect.ListType)
_AS_JSON = (inspect.DictType, inspect.AnyType)


def asked_by_fields(kind: type[Asked], fields: Iterable[tuple[str, str]]) -> Asked:
    """Return what is asked by fields that are texts, empty where nothing is said. Raises WrongRequestError.

    A field that takes several values may be given several times; one that takes any value has JSON in it.
    """
    values: dict[str, Any] = {}
    types = {field.encode_name: field.type for field in _fields_of(kind)}
    for name, text in fields:
        meant = within(types.get(name))
        if text == "" and name in types:
            continue
        if isinstance(meant, _SEVERAL):
            values.setdefault(name, []).append(text)
        elif name in values:
            raise WrongRequestError(Phrase("refusal.given_twice", field=name))
        else:
            values[name] = read_json(text, name) if isinstance(meant, _AS_JSON) else _text(name, text, meant)
    return _convert(kind, values, strict=False)


def asked_by_json(kind: type[Asked], body: bytes, named: Mapping[str, str]) -> Asked:
    """Return what is asked by a JSON object, and by what the path names. Raises WrongRequestError."""
    said = read_json(body, "the body") if body.strip() else {}
    if not isinstance(said, dict):
        raise WrongRequestError("the body: a JSON object is needed")
    if doubled := said.keys() & named.keys():
        raise WrongRequestError(f"{', '.join(sorted(doubled))}: the path says that")
    whole = {field.encode_name for field in _fields_of(kind) if isinstance(within(field.type), inspect.IntType)}
    said = {name: _whole(value) if name in whole else value for name, value in said.items()}
    return _convert(kind, {**said, **named}, strict=True)


def _whole(value: Any) -> Any:
    """Return a number as JSON means it: 3.0 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_json(text: str | bytes, where: str) -> Any:
    """Return what JSON says. Raises WrongRequestError where it is none, or nested too deeply."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WrongRequestError(Phrase("refusal.no_json", field=where, error=str(error))) from None
    except RecursionError:
        raise WrongRequestError(Phrase("refusal.deep", field=where)) from None
    if _is_too_deep(value):
        raise WrongRequestError(Phrase("refusal.deeper", field=where, levels=DEEPEST))
    return value


def _text(name: str, text: str, meant: inspect.Type | None) -> str:
    """Return a text that is to be read as another type: nothing is said by an empty one, and not by `null`."""
    if text.lower() == "null" and not isinstance(meant, inspect.StrType):
        raise WrongRequestError(Phrase("refusal.null", field=name))
    return text


def _convert(kind: type[Asked], values: Mapping[str, Any], *, strict: bool) -> Asked:
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise WrongRequestError(unfit(kind, str(error))) from None


def _fields_of(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described.fields


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = [
            each
            for outer in level
            if isinstance(outer, dict | list)
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not inner:
            return False
        level = inner
    return any(isinstance(each, dict | list) for each in level)
