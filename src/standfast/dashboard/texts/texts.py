"""The texts of the dashboard in one language, with the words of phrases."""

from functools import cache
from pathlib import Path

from standfast.phrases import Texts, texts_below
from standfast.phrases.speaker import HERE as PHRASES


@cache
def texts_in(language: str) -> Texts:
    """Return the texts of a language, one of `LANGUAGES`."""
    own = texts_below(Path(__file__).parent, language)
    return Texts(language, {**dict(own), **dict(texts_below(PHRASES, language))})
