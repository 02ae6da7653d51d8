"""Small pieces of English for rules: lists, rows of numbers, spans. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from holdfast.words import counted

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))
_A_RUN = 3
"""So many numbers in a row are told by the first and the last."""


def joined(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list: `a`, `a and b`, `a, b and c`."""
    *heads, tail = words
    return f"{', '.join(heads)} {last} {tail}" if heads else tail


def runs(numbers: Sequence[int], say: Callable[[int], str] = str) -> list[str]:
    """Return ascending numbers in words, three and more in a row as `1 to 5`."""
    told: list[str] = []
    rest = list(numbers)
    while rest:
        row = 1
        while row < len(rest) and rest[row] == rest[0] + row:
            row += 1
        row = row if row >= _A_RUN else 1
        told.append(say(rest[0]) if row == 1 else f"{say(rest[0])} to {say(rest[row - 1])}")
        del rest[:row]
    return told


def spaced(numbers: Sequence[int], whole: range) -> int | None:
    """Return the distance of ascending numbers that go round a whole evenly, as 7, 22, 37, 52 do an hour."""
    if len(whole) % len(numbers):
        return None
    step = len(whole) // len(numbers)
    return step if list(numbers) == list(range(numbers[0], whole[-1] + 1, step)) else None


def every_span(seconds: float) -> str:
    """Return how often: `every hour`, `every 15 minutes`, `every 1 hour and 30 minutes`."""
    told = span_words(seconds)
    return f"every {told if ' and ' in told else told.removeprefix('1 ')}"


def each(number: float, unit: str) -> str:
    """Return how often: `every hour`, `every 2 hours`."""
    return f"every {unit}" if number == 1 else f"every {number:g} {unit}s"


def span_words(seconds: float) -> str:
    """Return a span in full: `1 hour`, `15 minutes`, `1 hour and 30 minutes`."""
    told = []
    rest = seconds
    for unit, length in _UNITS:
        many, rest = divmod(rest, length)
        if many:
            told.append(counted(int(many), unit))
    if rest:
        told.append("1 second" if rest == 1 else f"{rest:g} seconds")
    return joined(told)


def moment_words(moment: datetime) -> str:
    """Return a moment as a date and a time in UTC, with seconds where there are any."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    precision = "microseconds" if utc.microsecond else "seconds" if utc.second else "minutes"
    return f"{utc.isoformat(' ', precision)} UTC"
