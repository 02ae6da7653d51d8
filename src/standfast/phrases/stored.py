"""Phrases that were written down in English, such as why a fire was missed, read back by their own words. Pure.

What is stored stays readable to whoever looks into the store, and to releases that know no phrases; what they wrote
is read as well. Text that is no phrase of ours, such as the reason that a person gave, is left as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from string import Formatter

from standfast.phrases.phrase import Phrase, as_phrase
from standfast.phrases.speaker import HERE
from standfast.phrases.texts import ONE, OTHER, texts_below

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
    for key, text in reversed(list(texts_below(HERE, "en"))):
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
