"""What was asked is told without anything that may be secret."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from standfast.admin.audit_trail import NAMES_ONLY, TOLD, told

S = "hunter22"


class Colour(StrEnum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True):
    task: str = ""
    arguments: dict[str, Any] = {}


class Asked(msgspec.Struct, frozen=True):
    id: str = ""
    key: str | None = None
    at: datetime | None = None
    colour: Colour = Colour.RED
    count: int = 0
    tags: tuple[str, ...] = ()
    which: Inner = Inner()
    args: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")
    anything: Any = None
    password: str = ""
    kwargs: Annotated[str, TOLD] = ""
    note: Annotated[str, NAMES_ONLY] = ""


def test_plain_fields_are_told_and_those_that_say_nothing_are_left_out() -> None:
    asked = Asked("j1", key="k", at=datetime(2026, 1, 2, tzinfo=UTC), count=3, tags=("a", "b"), which=Inner("mail"))
    assert told(asked) == {
        "id": "j1",
        "key": "k",
        "at": "2026-01-02T00:00:00+00:00",
        "count": "3",
        "tags": "a, b",
        "which.task": "mail",
    }


def test_of_arguments_only_the_names_are_told_however_they_come() -> None:
    """As a text of JSON, as bytes of it, as a mapping, deep inside, or as something unexpected."""
    asked = Asked(
        args=f'{{"to": "{S}", "n": 1}}',
        value=msgspec.Raw(f'{{"v": "{S}"}}'.encode()),
        which=Inner(arguments={"a": S}),
        anything=[{"b": S}],
        password=S,
        note=S,
    )
    shown = told(asked)
    assert shown == {
        "args": "to=••••, n=••••",
        "value": "v=••••",
        "which.arguments": "a=••••",
        "anything": "••••",
        "password": "••••",
        "note": "••••",
    }
    assert told(Asked(args=S, value=msgspec.Raw(b"[" * 9999)))["args"] == "••••"
    assert told(Asked(anything={"x": S})) == {"anything": "x=••••"}


def test_a_field_may_say_that_it_is_harmless() -> None:
    assert told(Asked(kwargs="plain")) == {"kwargs": "plain"}
