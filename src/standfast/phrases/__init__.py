"""What there is to say, apart from its words: a code and what it is about. Each language has a file of words."""

from standfast.phrases.phrase import (
    Dated,
    Distance,
    Nth,
    Phrase,
    as_phrase,
    followed,
    listed,
    ordinal,
    phrase_in,
)
from standfast.phrases.speaker import Speaker, english, in_english
from standfast.phrases.stored import stored_phrase
from standfast.phrases.texts import Texts, texts_below

__all__ = [
    "Dated",
    "Distance",
    "Nth",
    "Phrase",
    "Speaker",
    "Texts",
    "as_phrase",
    "english",
    "followed",
    "in_english",
    "listed",
    "ordinal",
    "phrase_in",
    "stored_phrase",
    "texts_below",
]
