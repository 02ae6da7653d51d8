"""Phrases that were written down in English, such as why a fire was missed, read back by their own words. Pure.

What is stored stays readable to whoever looks into the store, and to releases that know no phrases; what they wrote
is read as well. Text that is no phrase of ours, such as the reason that a person gave, is left as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from string import Formatter

from holdfast.phrases.phrase import Phrase, as_phrase
from holdfast.phrases.speaker import HERE
from holdfast.phrases.texts import ONE, OTHER, texts_below

LONGEST = 2_000
"""Longer texts are none of ours."""

_ONE_WORD = frozenset({"job", "state", "zone", "start", "end", "more", "count", "limit", "most"})
"""What is always one word."""


def stored_phrase(text: str, *sections: str) -> Phrase:
    """Return the phrase of these sections that a text was written from; else one that is just the text."""
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
    """Return how phrases look, those first of which most is fixed."""
    return tuple(sorted(_all_forms(sections), key=lambda form: -form.fixed))


def _all_forms(sections: tuple[str, ...]) -> Iterator[_Form]:
    for key, text in texts_below(HERE, "en"):
        if key.partition(".")[0] not in sections:
            continue
        pattern, fixed, names, numbers = "", 0, set[str](), set[str]()
        for literal, name, spec, _ in Formatter().parse(text):
            pattern, fixed = pattern + re.escape(literal), fixed + len(literal)
            if not name:
                continue
            kind = "[0-9,]+" if spec else r"\S+" if name in _ONE_WORD else ".+?"
            pattern += f"(?P={name})" if name in names else f"(?P<{name}>{kind})"
            names.add(name)
            numbers |= {name} if spec else set()
        if fixed:
            yield _Form(key, fixed, re.compile(pattern), frozenset(numbers))
