"""Spans, times and numbers as people say them, and foreign text made safe to show on one line. Pure."""

import re
from datetime import datetime, timedelta
from functools import cache

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WHOLE_SECONDS_FROM = 10
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_TEENS = (11, 12, 13)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}

_SIZE = re.compile(r"(?P<number>\d{1,18}(\.\d{0,9})?) ?(?P<unit>([kmgt]i?)?b?)", re.IGNORECASE)
_SIZES = {
    f"{letter}{binary}{b}": base**power
    for power, letter in enumerate(("", "K", "M", "G", "T"))
    for binary, base in (("", 1000), ("I", 1024))
    for b in ("", "B")
}


def install(extra: str) -> str:
    """Return the command that installs an extra: from a clone, as the index of packages does not have this one."""
    return f"pip install -e 'path/to/the/clone[{extra}]'"


def span(length: timedelta) -> str:
    """Return a span in its two largest units at most: 12 ms, 1.3 s, 42 s, 3 min 20 s, 2 h 5 min, 4 d."""
    return " ".join(f"{number} {unit}" for number, unit in span_parts(length))


def span_parts(length: timedelta) -> tuple[tuple[str, str], ...]:
    """Return a span as numbers, each with its unit: ms, s, min, h, d."""
    seconds = abs(length.total_seconds())
    if seconds < 0.9995:  # noqa: PLR2004 - from here on 1,000 ms would be shown
        return ((f"{seconds * 1000:.0f}", "ms"),)
    if seconds < _WHOLE_SECONDS_FROM:
        return ((f"{float(f'{seconds:.1f}'):g}", "s"),)
    whole = round(seconds)
    if whole < _MINUTE:
        return ((f"{whole}", "s"),)
    if whole < _HOUR:
        return _two_units(whole, _MINUTE, "min", 1, "s")
    if whole < _DAY:
        return _two_units(whole, _HOUR, "h", _MINUTE, "min")
    return _two_units(whole, _DAY, "d", _HOUR, "h")


def _two_units(
    seconds: int, large: int, large_name: str, small: int, small_name: str
) -> tuple[tuple[str, str], ...]:
    many, rest = divmod(seconds, large)
    few = rest // small
    return ((f"{many}", large_name), (f"{few}", small_name)) if few else ((f"{many}", large_name),)


def relative(at: datetime, now: datetime) -> str:
    """Return a time as its distance from now: `12 s ago`, `in 3 s`, or `now` for less than a second."""
    distance = at - now
    if abs(distance) < timedelta(seconds=1):
        return "now"
    return f"in {_coarse(distance)}" if distance > timedelta() else f"{_coarse(distance)} ago"


def _coarse(distance: timedelta) -> str:
    """Round to one unit: an age is read at a glance, its exact time stands beside it."""
    seconds = abs(distance.total_seconds())
    if round(seconds) < _MINUTE:
        return span(distance)
    if round(seconds / _MINUTE) * _MINUTE < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    if round(seconds / _HOUR) * _HOUR < _DAY:
        return f"{round(seconds / _HOUR)} h"
    return f"{round(seconds / _DAY)} d"


def moment(at: datetime, now: datetime) -> str:
    """Return a time of this machine's zone, with its date unless that is today's."""
    try:
        local = at.astimezone()
    except OverflowError:  # at the very ends of the calendar there is no local time
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def dated(at: datetime, now: datetime) -> str:
    """Return a time with its distance: `14:03:07 (in 3 s)`."""
    return f"{moment(at, now)} ({relative(at, now)})"


def ordinal(number: int) -> str:
    """Return `first`, `second` … `tenth`, then `11th`, `12th` …."""
    return _ORDINALS[number - 1] if 1 <= number <= len(_ORDINALS) else nth(number)


def nth(number: int) -> str:
    """Return `1st`, `2nd` … `31st`."""
    return f"{number}{ending(number)}"


def ending(number: int) -> str:
    """Return what makes a number one of a row: st, nd, rd, th."""
    return "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 job`, `1,200 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size_of(text: str) -> int | None:
    """Return the bytes that a text means, such as 400MB (1,000,000 each) or 1.5GiB; None where it means none."""
    found = _SIZE.fullmatch(text)
    return None if found is None else round(float(found["number"]) * _SIZES[found["unit"].upper()])


def in_bytes(size: int) -> str:
    """Return an amount of memory as people say it: 850 kB, 412 MB, 1.5 GB."""
    number, units = float(size), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while number >= 999.5 and (larger := next(units, None)) is not None:  # noqa: PLR2004 - from here on 1,000 would be shown
        number, unit = number / 1000, larger
    shown = f"{number:.1f}".removesuffix(".0") if unit == "GB" else f"{number:.0f}"
    return f"{shown} {unit}"


def with_note(words: str, note: str | None) -> str:
    """Return how far something is with what it is doing: `3 of 10: the shoes`."""
    return f"{words}: {one_line(note)}" if note else words


def one_line(text: str, limit: int | None = None) -> str:
    """Return foreign text as one line without control characters, which could repaint a terminal."""
    safe = legible(" ".join(text.split()))
    return safe if limit is None or len(safe) <= limit else safe[: limit - 1] + "…"


def legible(line: str) -> str:
    """Return a line of foreign text with its control characters made visible; its spaces stay."""
    line = line.expandtabs()
    return line if line.isprintable() else "".join(c if c.isprintable() else "�" for c in line)


def short_id(job_id: str) -> str:
    """Return the end of a job id: ids begin with the time, so only their ends tell neighbours apart."""
    return job_id[-8:]


@cache
def standfast_version() -> str:
    """Return the version of Standfast that is installed."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import, and seldom asked for

    return version("standfast")
