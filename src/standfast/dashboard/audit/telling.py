"""What was asked, in words that may be kept: never what may be secret. Pure.

Arguments of jobs can be anything, and a secret among them is known by its task only, which the dashboard does not
import. So of whatever may carry arguments only the names are told; a field says otherwise by
`Annotated[str, TOLD]` or `Annotated[str, NAMES_ONLY]`.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from standfast.codec import MASK
from standfast.codec.redaction import is_secret_name

TOLD = msgspec.Meta(extra={"told": True})
"""Marks a field that is told as it is, whatever its name: nothing secret can be in it."""

NAMES_ONLY = msgspec.Meta(extra={"told": False})
"""Marks a field that may carry something secret."""

CARRIERS = frozenset(
    {
        "args",
        "arguments",
        "kwargs",
        "payload",
        "value",
        "values",
        "data",
        "body",
        "result",
        "params",
        "template",
        "metadata",
    }
)
"""Names of fields that carry what belongs to users."""

_PLAIN = str | int | float | datetime | timedelta | Enum
_HARMLESS = frozenset({"key", "next_key"})
"""The key of a job is its name among others, and no key to anything."""


def told(asked: msgspec.Struct) -> Mapping[str, str]:
    """Return what was asked in words, as far as it says anything; what may be secret by its names only."""
    return dict(_fields(asked, ""))


def _fields(asked: msgspec.Struct, within: str) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(asked):
        value = getattr(asked, field.name)
        if value is None or value == field.default or value in ("", (), [], {}, frozenset()):
            continue
        mark = _mark(field.type)
        if isinstance(value, msgspec.Struct) and mark is not False:
            yield from _fields(value, f"{within}{field.name}.")
        else:
            shown = not _may_be_secret(field.name) if mark is None else mark
            yield within + field.name, (_words(value) if shown else _names(value))


def _mark(annotation: Any) -> bool | None:
    """Return what an annotation says about being told; None where it says nothing."""
    for part in getattr(annotation, "__metadata__", ()):
        if isinstance(part, msgspec.Meta) and "told" in (part.extra or {}):
            return bool((part.extra or {})["told"])
    return None


def _may_be_secret(name: str) -> bool:
    return name in CARRIERS or (is_secret_name(name) and name not in _HARMLESS)


def _words(value: Any) -> str:
    """Return a value, if it is plain or several that are; of anything else the names."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, _PLAIN):
        return str(value)
    if isinstance(value, tuple | list | set | frozenset) and all(isinstance(each, _PLAIN) for each in value):
        return ", ".join(_words(each) for each in value)
    return _names(value)


def _names(value: Any) -> str:
    """Return the names that a mapping has, also one that is JSON, and nothing of what they stand for."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, msgspec.Raw | bytes | str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return MASK
    return ", ".join(f"{name}={MASK}" for name in value) if isinstance(value, Mapping) and value else MASK
