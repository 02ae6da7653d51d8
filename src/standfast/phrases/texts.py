"""The texts of one language.

    [jobs.found]
    one = "1 job"
    other = "{n:,} jobs"

is `say("jobs.found", n=1200)`: what depends on a number has its forms by the name of the rule of plurals.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
