"""Texts and numbers as they may be asked for: bounded, and free of what stores cannot keep."""

from typing import Annotated, Any

import msgspec

Word = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
"""A name, an id, or a part of one."""

Text = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^[^\x00]*$")]
"""A sentence or two."""

When = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[^\x00]*$")]
"""A moment: a date with its zone, or a span such as 2h."""

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


class WithId(Asks, frozen=True, kw_only=True):
    """Which one, by its id."""

    id: Word
