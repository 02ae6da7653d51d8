"""A phrase: a code and what it is about, which any language has words for. Pure.

    Phrase("obstacle.paused", queue="mail", since=Dated(paused_at, now))

Code that finds something out returns phrases. Words are made of them where they are shown: `str()` of one is
English, for the command line, logs and the JSON API; pages of the dashboard say it in the reader's language.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from standfast import words


class Dated(NamedTuple):
    """A time that is told with its distance from now."""

    at: datetime
    now: datetime


class Distance(NamedTuple):
    """A time that is told by its distance from now alone."""

    at: datetime
    now: datetime


class Nth(NamedTuple):
    """A number that is told by its place in a row: `2nd`."""

    number: int


class Phrase:
    """Something that can be said. It never changes, and two of the same code and content are equal.

    What it is about are texts, numbers, spans (`timedelta`), times (`Dated`, `Distance`; of a bare `datetime` the
    moment is told in UTC), places in a row (`Nth`) and other phrases. It has a form for `n=1` and another for
    other numbers, where a language has two.
    """

    __slots__ = ("_code", "_params")

    def __init__(self, code: str, /, **params: Any) -> None:
        self._code = code
        self._params = MappingProxyType(params)

    @property
    def code(self) -> str:
        """Under which its words are found."""
        return self._code

    @property
    def params(self) -> Mapping[str, Any]:
        """What it is about, by name."""
        return self._params

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Phrase):
            return NotImplemented
        return self._code == other._code and self._params == other._params

    def __hash__(self) -> int:
        return hash((self._code, frozenset(self._params.items())))

    def __str__(self) -> str:
        from standfast.phrases.speaker import english  # noqa: PLC0415 - who speaks knows phrases

        return english().say(self)

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self._params.items())
        return f"Phrase({self._code!r}{params})"


def ordinal(number: int) -> Phrase:
    """Return the phrase for a place in a row: `first`, `second` … `tenth`, then `11th` …."""
    word = words.ordinal(number)
    return Phrase(f"ordinal.{word}") if word.isalpha() else Phrase("ordinal.more", nth=Nth(number))


def followed(first: Phrase, *others: Phrase) -> Phrase:
    """Return sentences as one phrase, one after the other."""
    for each in others:
        first = Phrase("list.sentences", first=first, then=each)
    return first


def listed(things: Iterable[Phrase | str | int], kind: str = "list") -> Phrase:
    """Return things as one phrase, a list of this kind: `a`, `a and b`, `a, b and c`."""
    *heads, tail = (each if isinstance(each, Phrase) else Phrase("list.one", it=each) for each in things)
    if not heads:
        return tail
    before = reduce(lambda told, each: Phrase(f"{kind}.next", heads=told, tail=each), heads)
    return Phrase(f"{kind}.last", heads=before, tail=tail)


def as_phrase(text: Phrase | str) -> Phrase:
    """Return a text that somebody else wrote as a phrase, which is the same in every language."""
    return text if isinstance(text, Phrase) else Phrase("list.one", it=text)


def phrase_in(error: Exception) -> Phrase:
    """Return what an error says: its phrase, or else its message as it is."""
    [said] = error.args if len(error.args) == 1 else [str(error)]
    return as_phrase(said if isinstance(said, Phrase) else str(error))
