"""What a field may be, in words, for whoever has written something else into it. Pure."""

import re

import msgspec
from msgspec import inspect

from standfast.phrases import Phrase

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
