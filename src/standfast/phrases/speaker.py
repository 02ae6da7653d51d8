"""Phrases in words."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from standfast.phrases.phrase import Dated, Distance, Nth, Phrase
from standfast.phrases.texts import Texts, texts_below
from standfast.words import dated, ending, relative, span_parts

HERE = Path(__file__).parent
"""Where the words of phrases are, a file for each language."""


class Speaker:
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
def english() -> Speaker:
    """Return who says phrases in English."""
    return Speaker(texts_below(HERE, "en"))


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
