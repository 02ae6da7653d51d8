"""From the fields of a URL or a form, or from JSON, to the arguments of an operation; and files as answers."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from standfast.admin.job_search import JobsExported
from standfast.admin.operation import WrongRequestError
from standfast.model.phrases import Phrase

_AT = re.compile(r" - at `\$\.(\w+)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.{0,80})`", re.DOTALL)


def unfit(kind: type[msgspec.Struct], said: str) -> Phrase | str:
    """Return which field is wrong and what it may be, given what a reader of this kind says; else just that."""
    if missing := _MISSING.fullmatch(said):
        return Phrase("refusal.field_missing", field=missing[1])
    if unknown := _UNKNOWN.fullmatch(said):
        return Phrase("refusal.field_unknown", field=unknown[1])
    at = _AT.search(said)
    takes = None if at is None else takes_of(_type_of(kind, at[1]))
    return said if at is None or takes is None else Phrase("refusal.field", field=at[1], takes=takes)


def _type_of(kind: type[msgspec.Struct], name: str) -> inspect.Type | None:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return next((within(field.type) for field in described.fields if field.encode_name == name), None)


def within(kind: inspect.Type | None) -> inspect.Type | None:
    """Return the type that a field has where it is not null."""
    if isinstance(kind, inspect.Metadata):
        return within(kind.type)
    if isinstance(kind, inspect.UnionType):
        return within(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind


def takes_of(kind: inspect.Type | None) -> Phrase | None:
    """Return what a value of a type may be; None where that is not so easily said."""
    takes: Phrase | None = None
    match within(kind):
        case inspect.IntType(ge=int(least), le=int(most)):
            takes = Phrase("takes.whole", least=f"{least:,}", most=f"{most:,}")
        case inspect.FloatType(ge=least, le=most) if least is not None and most is not None:
            takes = Phrase("takes.within", least=f"{least:,g}", most=f"{most:,.0f}")
        case inspect.FloatType(gt=above) if above is not None:
            takes = Phrase("takes.number", above=f"{above:g}")
        case inspect.BoolType():
            takes = Phrase("takes.truth")
        case inspect.EnumType(cls=members):
            takes = Phrase("takes.one_of", names=", ".join(str(each.value) for each in members))
        case inspect.LiteralType(values=values):
            takes = Phrase("takes.one_of", names=", ".join(map(str, values)))
        case inspect.StrType(max_length=int(most)):
            takes = Phrase("takes.text", most=f"{most:,}")
        case inspect.VarTupleType(item_type=item):
            takes = takes_of(item)
        case inspect.DictType():
            takes = Phrase("takes.object")
    return takes


Asked = TypeVar("Asked", bound=msgspec.Struct)

LONGEST_BODY = 2 * 1024 * 1024
"""Bytes of a body that are read: arguments are half of that, at most."""

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


def file_of(request: Request, told: JobsExported) -> Response:
    """Return the answer that sends a file, and says how many jobs are in it at most."""
    headers = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f'attachment; filename="{told.name}"',
        "X-Standfast-Limit": str(told.limit),
    }
    if told.span is not None:
        headers["X-Standfast-Span"] = str(told.span)
    if request.method == "HEAD":
        return Response(media_type=told.type, headers=headers)
    return StreamingResponse(told.parts, media_type=told.type, headers=headers)
