"""Arguments that nobody is to see: how they are marked, and how their values are kept out of every text."""

import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from types import MemberDescriptorType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict
from urllib.parse import quote, quote_plus
from uuid import UUID

MASK = "••••"
"""What stands in place of a secret."""

SHORTEST = 4
"""Characters that a secret has at least; a shorter one would blot out words that only look like it."""


class Secret:
    """Marks a parameter whose value is never shown: `token: Annotated[str, Secret]`."""


def is_mark(metadata: Any) -> bool:
    """Tell whether a piece of an annotation is the mark."""
    return metadata is Secret or isinstance(metadata, Secret)


def holds_secret(annotation: Any) -> bool:
    """Tell whether a type is marked, or anything inside it. Raises NameError where a name is not defined yet."""
    return any(map(is_mark, parts_of(annotation)))


class Scrub:
    """Takes secret values out of texts. Without any, a text stays as it is."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._values = tuple(values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        """Return the text with each secret in it replaced; call it before the text is cut."""
        if self._values:
            for form in self._forms:
                text = text.replace(form, MASK)
        return text

    def record(self, record: logging.LogRecord) -> None:
        """Clean a log record, for whoever hears it after: its message and its traceback become texts."""
        if not self._values:
            return
        trace = trace_of(record)
        record.msg, record.args = _written_out(record), None
        record.exc_info, record.exc_text = None, trace.rstrip() if trace else None
        for name, value in record.__dict__.items():
            if isinstance(value, str):
                record.__dict__[name] = self.text(value)
            elif not isinstance(value, int | float | None):
                shown = _shown(value)
                if shown is None or (cleaned := self.text(shown)) != shown:
                    record.__dict__[name] = f"<{type(value).__name__}>" if shown is None else cleaned

    @cached_property
    def _forms(self) -> list[str]:
        """Every way to write the secrets, the longest first: one may be a part of another."""
        forms = {form for leaf in _leaves(self._values) for form in _forms(leaf)}
        return sorted(forms, key=len, reverse=True)


NO_SECRETS = Scrub()


def trace_of(record: logging.LogRecord) -> str:
    """Return the traceback that a record carries, also where it was cleaned and is a text already; "" without."""
    if record.exc_info and record.exc_info[1] is not None:
        return "".join(traceback.format_exception(record.exc_info[1]))
    return record.exc_text or ""


def _written_out(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit the message: the handlers would complain, each
        return " ".join(_shown(part, str) or f"<{type(part).__name__}>" for part in (record.msg, record.args))


def _shown(value: Any, show: Callable[[Any], str] = repr) -> str | None:
    """Return a value as text; None where its own class fails to say it."""
    try:
        return show(value)
    except Exception:  # noqa: BLE001 - whoever logs is not to suffer for it
        return None


def parts_of(annotation: Any, *, models: bool = True) -> Iterator[Any]:
    """Yield all that an annotation is made of: arguments, marks, and the types of the fields of its classes.

    Without `models`, those of pydantic models are left out.
    """
    yield from _parts(annotation, set(), models)


def _parts(annotation: Any, seen: set[int], models: bool) -> Iterator[Any]:
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    yield annotation
    inside = (
        *get_args(annotation),
        *getattr(annotation, "__metadata__", ()),
        *(getattr(annotation, name, None) for name in ("__supertype__", "__value__")),
        get_origin(annotation),
        *_field_types(annotation, models),
    )
    for part in inside:
        yield from _parts(part, seen, models)


def _field_types(kind: Any, models: bool) -> Iterable[Any]:
    fields: Mapping[str, Any] | None = getattr(kind, "__pydantic_fields__", None)
    if fields is not None:  # pydantic has resolved its annotations, and keeps the marks apart
        return [part for field in fields.values() if models for part in (field.annotation, *field.metadata)]
    known = is_dataclass(kind) or is_typeddict(kind) or any(hasattr(kind, name) for name in _MADE_OF_FIELDS)
    return get_type_hints(kind, include_extras=True).values() if known and isinstance(kind, type) else ()


_MADE_OF_FIELDS = ("__struct_fields__", "__attrs_attrs__", "_fields")


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts of which a value consists. True, False and None are no secrets."""
    match value:
        case None | bool():
            return
        case str() if not isinstance(value, Enum):
            yield value
        case bytes() | bytearray():
            yield from (b64encode(value).decode(), repr(bytes(value))[2:-1], value.decode(errors="ignore"))
            yield from _in_hex(bytes(value))
        case Mapping():
            yield from _leaves([*value.keys(), *value.values()])
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from _leaves(each)
        case Enum():
            yield from _leaves(value.value)
        case UUID():
            yield from (str(value), value.hex)
        case _:
            yield from _leaves_of_object(value)


def _leaves_of_object(value: Any) -> Iterator[str]:
    """Yield the texts of its fields, and its own where it has no fields or says itself how it reads."""
    kind = type(value)
    names = getattr(kind, "__struct_fields__", None) or [*getattr(value, "__dict__", ()), *_slots(kind)]
    yield from _leaves([getattr(value, name, None) for name in names])
    if not names or any("__str__" in vars(each) for each in kind.__mro__[:-1]):
        yield from filter(None, (_shown(value, str), _shown(value)))


def _slots(kind: type) -> Iterator[str]:
    """Yield the names of all slots, also those that a class has from the ones it is made of."""
    for each in kind.__mro__:
        if "__slots__" in vars(each):
            yield from (name for name, slot in vars(each).items() if isinstance(slot, MemberDescriptorType))


def _in_hex(raw: bytes) -> Iterator[str]:
    yield from (raw.hex(), raw.hex().upper())


def _forms(leaf: str) -> Iterator[str]:
    """Yield how a text is written in messages, tracebacks, JSON, URLs, hex, and its lines, maybe indented."""
    if len(leaf) >= SHORTEST:
        yield from _in_hex(leaf.encode(errors="replace"))
    for piece in {leaf, *map(str.strip, leaf.splitlines())}:
        for once in _written(piece):
            yield from (form for form in (once, *_written(once)) if len(form) >= SHORTEST)


def _written(text: str) -> Iterator[str]:
    yield text
    for shown in (repr, ascii):
        yield shown(text)[1:-1]
        yield shown(f"'\"{text}")[4:-1]  # as inside a text that has both quotes
    yield repr(text.encode())[2:-1]
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield quote(text)
    yield quote(text, safe="")
    yield quote_plus(text)
