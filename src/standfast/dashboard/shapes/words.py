"""Texts and numbers as they may be asked for: bounded, and free of what stores cannot keep."""

from typing import Annotated, Any

import msgspec

Word = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
"""A name, an id, or a part of one."""

Text = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^[^\x00]*$")]
"""A sentence or two."""

_NUMBER = r"[0-9]{1,6}(\.[0-9]{1,3})?"
_SPAN = rf"({_NUMBER} ?(ms|s|min|m|h|d|w) ?)+"
_DAY = r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_DATE = rf"{_DAY}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?(Z|[+-]0[0-9]:00)"

_MOMENT = rf"now|{_SPAN}|{_DATE}"

When = Annotated[
    str,
    msgspec.Meta(max_length=64, extra_json_schema={"pattern": f"^(|{_NUMBER}|{_MOMENT})$", "examples": ["2h"]}),
]
"""A moment: a date with its zone, or a span such as 2h; `reading.moments` says in words what is wrong with one."""

End = Annotated[
    str, msgspec.Meta(max_length=64, extra_json_schema={"pattern": f"^({_MOMENT}|{_DAY})$", "examples": ["2h"]})
]
"""Likewise, with the unit of a span, as 2 alone would be 2 seconds; or a date alone."""

QueueName = Annotated[
    str, msgspec.Meta(max_length=200, extra_json_schema={"pattern": "^[A-Za-z0-9_.-]{0,64}$", "maxLength": 64})
]
"""The name of a queue; what is wrong with one is said in words where it is used."""

NewId = Annotated[
    str,
    msgspec.Meta(
        max_length=200,
        extra_json_schema={"pattern": "^(|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})$"},
    ),
]
"""An id of the caller's own, a UUIDv7."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
"""So many on one page, at most."""

Arguments = dict[str, Any]
"""Arguments of a task, by name."""


class Asks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of an operation."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation answers, or a part of that."""


class NothingAsked(Asks, frozen=True, kw_only=True):
    """Nothing needs to be said."""


class Named(Asks, frozen=True, kw_only=True):
    """Which one, by its name."""

    name: Word


class QueueNamed(Asks, frozen=True, kw_only=True):
    """Which queue, by its name."""

    name: QueueName


class WithId(Asks, frozen=True, kw_only=True):
    """Which one, by its id."""

    id: Word
