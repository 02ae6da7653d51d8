"""Small pieces of phrases for rules: rows of numbers, spans. Pure."""

from collections.abc import Sequence

from standfast.phrases import Phrase, listed

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))
_A_RUN = 3
"""So many numbers in a row are told by the first and the last."""


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending numbers by the first and the last of those in a row, if these are three or more."""
    found: list[tuple[int, int]] = []
    rest = list(numbers)
    while rest:
        row = 1
        while row < len(rest) and rest[row] == rest[0] + row:
            row += 1
        row = row if row >= _A_RUN else 1
        found.append((rest[0], rest[row - 1]))
        del rest[:row]
    return found


def spaced(numbers: Sequence[int], whole: range) -> int | None:
    """Return the distance of ascending numbers that go round a whole evenly, as 7, 22, 37, 52 do an hour."""
    if len(whole) % len(numbers):
        return None
    step = len(whole) // len(numbers)
    return step if list(numbers) == list(range(numbers[0], whole[-1] + 1, step)) else None


def every_span(seconds: float) -> Phrase:
    """Return how often: `every hour`, `every 15 minutes`, `every 1 hour and 30 minutes`."""
    parts = _parts(seconds)
    return each(*parts[0]) if len(parts) == 1 else Phrase("each.span", span=span_phrase(seconds))


def each(number: float, unit: str) -> Phrase:
    """Return how often: `every hour`, `every 2 hours`."""
    return Phrase(f"each.{unit}", n=number)


def span_phrase(seconds: float) -> Phrase:
    """Return a span in full: `1 hour`, `15 minutes`, `1 hour and 30 minutes`."""
    return listed((Phrase(f"span.{unit}", n=number) for number, unit in _parts(seconds)), "span")


def _parts(seconds: float) -> list[tuple[float, str]]:
    parts: list[tuple[float, str]] = []
    rest = seconds
    for unit, length in _UNITS:
        many, rest = divmod(rest, length)
        if many:
            parts.append((int(many), unit))
    if rest:
        parts.append((rest, "second"))
    return parts
