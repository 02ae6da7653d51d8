"""The words of the dashboard, in every language that it speaks: one file of texts for each, with the same keys."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from standfast.model.phrases import PHRASE_TEXTS as PHRASES
from standfast.model.phrases import Texts, texts_below

LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "zh-Hant": "繁體中文"})
"""The languages there are, with their own names; the first serves where no other is wanted."""

LANGUAGE_COOKIE = "standfast_lang"

_CHINESE = "zh"
_LONGEST = 200
"""So much is read of what a browser says it prefers."""


def preferred(asked: str | None, kept: str | None, accepted: str | None) -> str:
    """Return the language that was asked for, or was kept by a cookie, or that the browser likes best."""
    for wish in (asked, kept, *_ranked(accepted or "")):
        found = _known(wish or "")
        if found is not None:
            return found
    return next(iter(LANGUAGES))


def _known(wish: str) -> str | None:
    lower = wish.lower()
    if lower.split("-")[0] == _CHINESE:  # the Chinese that there is is better than none
        return "zh-Hant"
    return next((language for language in LANGUAGES if lower.split("-")[0] == language.lower()), None)


def _ranked(accepted: str) -> Iterator[str]:
    wishes = []
    for part in accepted[:_LONGEST].split(","):
        language, _, weight = part.strip().partition(";q=")
        wishes.append((_weight(weight), language))
    wishes.sort(key=lambda wish: -wish[0])
    yield from (language for weight, language in wishes if weight > 0)


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


@cache
def texts_in(language: str) -> Texts:
    """Return the texts of a language, one of `LANGUAGES`."""
    own = texts_below(Path(__file__).parent, language)
    return Texts(language, {**dict(own), **dict(texts_below(PHRASES, language))})
