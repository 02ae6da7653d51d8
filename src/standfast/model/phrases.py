"""A phrase: a code and what it is about, which any language has words for. Pure.

    Phrase("obstacle.paused", queue="mail", since=Dated(paused_at, now))

Code that finds something out returns phrases. Words are made of them where they are shown: `str()` of one is
English, for the command line, logs and the JSON API; pages of the dashboard say it in the reader's language.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from standfast.model import display
from standfast.model.display import dated, ending, relative, span_parts


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

        return english_renderer().say(self)

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self._params.items())
        return f"Phrase({self._code!r}{params})"


def ordinal(number: int) -> Phrase:
    """Return the phrase for a place in a row: `first`, `second` … `tenth`, then `11th` …."""
    word = display.ordinal(number)
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


ONE, OTHER = "one", "other"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Texts:
    """Says things in one language."""

    def __init__(self, language: str, texts: Mapping[str, str]) -> None:
        self.language = language
        self._texts = texts

    def say(self, key: str, /, **params: Any) -> str:
        """Return a text with what it tells of. Raises KeyError for one that there is not."""
        return self.form(key, params).format_map(params)

    def form(self, key: str, params: Mapping[str, Any] = _NOTHING) -> str:
        """Return the text before it is filled in, in the form for these numbers. Raises KeyError likewise."""
        form = self._texts.get(f"{key}.{ONE}") if params.get("n") == 1 else None
        if form is None:
            form = self._texts.get(key) or self._texts.get(f"{key}.{OTHER}")
        if form is None:
            raise KeyError(f"{self.language} has no text '{key}'")
        return form

    def knows(self, key: str) -> bool:
        """Tell whether there is such a text: codes of a later release may have none."""
        return key in self._texts or f"{key}.{OTHER}" in self._texts

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._texts.items())


@cache
def texts_below(folder: Path, language: str) -> Texts:
    """Return the texts of a language that are in a folder."""
    import tomllib  # noqa: PLC0415 - most processes never say anything

    with (folder / f"{language}.toml").open("rb") as file:
        return Texts(language, dict(_flat(tomllib.load(file))))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, str):
            yield prefix + name, value
        else:
            yield from _flat(value, f"{prefix}{name}.")


PHRASE_TEXTS = Path(__file__).parent / "texts"
"""Where the words of phrases are, a file for each language."""


class PhraseRenderer:
    """Says phrases as plain text, in the language of its texts; times with their distance are told in English."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def say(self, phrase: Phrase) -> str:
        """Return a phrase in words."""
        told = {name: self.told(value) for name, value in phrase.params.items()}
        return self.filled(self._texts.form(phrase.code, phrase.params), told)

    def told(self, value: Any) -> Any:
        """Return what a phrase is about in words; texts and numbers as they are."""
        match value:
            case Phrase():
                return self.say(value)
            case Dated() | Distance():
                return self.time(value)
            case Nth(number):
                return self._texts.say(f"nth.{ending(number)}", number=number)
            case timedelta():
                return self.span(value)
            case datetime():
                return moment_words(value)
        return value

    def filled(self, form: str, told: Mapping[str, Any]) -> str:
        """Return a form of words with what it is about."""
        return form.format_map(told)

    def time(self, at: Dated | Distance) -> str:
        """Return a time as it is seen from now."""
        return dated(*at) if isinstance(at, Dated) else relative(*at)

    def span(self, length: timedelta) -> str:
        """Return a span in its two largest units at most."""
        return " ".join(self._texts.say(f"unit.{unit}", number=number) for number, unit in span_parts(length))


@cache
def english_renderer() -> PhraseRenderer:
    """Return who says phrases in English."""
    return PhraseRenderer(texts_below(PHRASE_TEXTS, "en"))


def moment_words(moment: datetime) -> str:
    """Return a moment as a date and a time in UTC, with seconds where there are any."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    precision = "microseconds" if utc.microsecond else "seconds" if utc.second else "minutes"
    return f"{utc.isoformat(' ', precision)} UTC"


def in_english(value: object) -> str:
    """Return a phrase in English, for those who write JSON; what msgspec calls an `enc_hook`."""
    if isinstance(value, Phrase):
        return str(value)
    raise NotImplementedError


# What is stored stays readable to whoever looks into the store, and to releases that know no phrases; what they wrote
# is read as well. Text that is no phrase of ours, such as the reason that a person gave, is left as it is.

LONGEST = 2_000
"""Longer texts are none of ours."""

_ONE_WORD = r"\S+"
_KINDS = {
    **dict.fromkeys(("job", "zone", "start", "end", "more", "count", "limit", "most"), _ONE_WORD),
    "window": r"[0-9]{2}:.+?",
}
"""How parts look that cannot look like anything."""


def stored_phrase(text: str, *sections: str) -> Phrase:
    """Return the phrase that a text was written from; else one that is just the text.

    Sections, or single codes, are tried in this order: first what is around others.
    """
    phrase = as_phrase(_read_back(text, sections))
    return phrase if str(phrase) == text else as_phrase(text)


def _read_back(text: str, sections: tuple[str, ...]) -> Phrase | str:
    if len(text) <= LONGEST:
        for form in _forms(sections):
            found = form.pattern.fullmatch(text)
            if found is not None:
                return form.phrase(found, sections)
    return text


@dataclass(frozen=True, slots=True)
class _Form:
    """How a phrase looks in English; so many characters of it are fixed, and these of its parts are numbers."""

    key: str
    fixed: int
    pattern: re.Pattern[str]
    numbers: frozenset[str]

    def phrase(self, found: re.Match[str], sections: tuple[str, ...]) -> Phrase:
        """Return what was said; its parts may be phrases as well."""
        parts: dict[str, Phrase | str | int] = {"n": 1} if self.key.endswith(f".{ONE}") else {}
        for name, part in found.groupdict().items():
            number = name in self.numbers
            parts[name] = int(part.replace(",", "")) if number else _read_back(part, sections)
        return Phrase(self.key.removesuffix(f".{OTHER}").removesuffix(f".{ONE}"), **parts)


@cache
def _forms(sections: tuple[str, ...]) -> tuple[_Form, ...]:
    """Return how phrases look: by section, those first of which most is fixed, and what may have others in it."""
    return tuple(
        form for section in sections for form in sorted(_of_section(section), key=lambda form: -form.fixed)
    )


def _of_section(section: str) -> Iterator[_Form]:
    for key, text in reversed(list(texts_below(PHRASE_TEXTS, "en"))):
        if key != section and not key.startswith(f"{section}."):
            continue
        pattern, fixed, names, numbers = "", 0, set[str](), set[str]()
        for literal, name, spec, _ in Formatter().parse(text):
            pattern, fixed = pattern + re.escape(literal), fixed + len(literal)
            if not name:
                continue
            kind = "[0-9,]+" if spec else _KINDS.get(name, ".+?")
            pattern += f"(?P={name})" if name in names else f"(?P<{name}>{kind})"
            names.add(name)
            numbers |= {name} if spec else set()
        if fixed:
            yield _Form(key, fixed, re.compile(pattern), frozenset(numbers))
