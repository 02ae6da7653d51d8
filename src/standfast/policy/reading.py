"""What declarations take, and how it is read: seconds or timedeltas, words, one or several. Pure.

What cannot be read is kept as it is: `problems.py` complains of it.
"""

import math
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar

from standfast.core.backoff import Backoff, Constant, Exponential
from standfast.words import size_of

W = TypeVar("W", bound=StrEnum)

Seconds = float | timedelta
"""A span, as a number of seconds or a timedelta."""

OnConflictWord = Literal["return", "replace", "raise"]
OnLateWord = Literal["run", "expire"]
IsolationWord = Literal["none", "process"]

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]


def as_word(kind: type[W], word: Any) -> W:
    """Return the member that a word means; any other word is kept, to be complained of."""
    return kind(word) if is_word(kind, word) else word


def as_span(span: Any) -> Any:
    """Return a number of seconds as a timedelta; anything else is kept, to be complained of."""
    try:
        return timedelta(seconds=span) if is_finite(span) else span
    except OverflowError:
        return span


def as_tags(tags: Any) -> Any:
    """Return tags without repetitions; one string is one tag. Anything else is kept, to be complained of."""
    try:
        return (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))
    except TypeError:
        return tags


def as_seconds(span: Any) -> Any:
    """Return a timedelta as seconds; anything else is kept, to be complained of."""
    return span.total_seconds() if isinstance(span, timedelta) else span


def as_bytes(size: Any) -> Any:
    """Return a size such as "512MB" or "1GiB" in bytes; anything else is kept, to be complained of."""
    meant = size_of(size) if isinstance(size, str) else None
    return size if meant is None else meant


def as_backoff(backoff: Backoff | Seconds | None) -> Backoff:
    """Return the backoff that is meant: a number is a constant wait of so many seconds."""
    if backoff is None:
        return Exponential()
    seconds = as_seconds(backoff)
    return Constant(seconds) if is_number(seconds) else seconds


def as_types(types: Any) -> tuple[type[BaseException], ...]:
    """Return one type, or several, as a tuple."""
    return tuple(types) if isinstance(types, tuple | list) else (types,)


def is_word(kind: type[StrEnum], word: Any) -> bool:
    """Tell whether this is one of the words."""
    return isinstance(word, str) and word in set(kind)


def is_int(value: Any) -> bool:
    """Tell whether this is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Tell whether this is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Tell whether this is a number with an end."""
    return is_number(value) and math.isfinite(value)
