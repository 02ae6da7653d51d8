"""Days as people name them: a weekday, a date, a date of every year. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from standfast.errors import ConfigurationError
from standfast.phrases import Phrase

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

ALL_KINDS_OF_YEARS = range(2000, 2028)
"""In these years each month begins on each weekday, February of leap years too: there are no other days."""

_EVERY_YEAR = re.compile(r"[0-9]{2}-[0-9]{2}")
_LEAP_YEAR = 2000


def as_weekday(day: Any) -> str:
    """Return a weekday, whole or by its first three letters, as one of WEEKDAYS."""
    word = day.lower() if isinstance(day, str) else ""
    for short, name in zip(WEEKDAYS, WEEKDAY_NAMES, strict=True):
        if word in {short, name.lower()}:
            return short
    raise ConfigurationError(f'{day!r} is no weekday; write one as "mon" or "monday"')


def as_date(day: Any) -> str:
    """Return a date as "2026-12-25", or one of every year as "12-25"."""
    if isinstance(day, date) and not isinstance(day, datetime):
        return day.isoformat()
    text = day if isinstance(day, str) else ""
    try:
        return text if is_yearly(text) and _in_year(_LEAP_YEAR, text) else date.fromisoformat(text).isoformat()
    except ValueError:
        raise ConfigurationError(
            f'{day!r} is no date; write datetime.date(2026, 12, 25), "2026-12-25", or "12-25" for every year'
        ) from None


def as_day(day: Any) -> str:
    """Return a weekday or a date in its one form."""
    return as_weekday(day) if isinstance(day, str) and day.isalpha() else as_date(day)


def as_weekdays(days: Any) -> tuple[str, ...]:
    """Return one weekday or several, in the order of the week."""
    named = {as_weekday(day) for day in several(days)}
    return tuple(day for day in WEEKDAYS if day in named)


def as_dates(days: Any) -> tuple[str, ...]:
    """Return one date or several, in order."""
    return tuple(sorted({as_date(day) for day in several(days)}))


def several(things: Any) -> tuple[Any, ...]:
    """Return one thing, or several, as a tuple."""
    if isinstance(things, Iterable) and not isinstance(things, str | Mapping):
        return tuple(things)
    return (things,)


def is_on(day: str, today: date) -> bool:
    """Tell whether a day, in its one form, is this one."""
    return WEEKDAYS[today.weekday()] == day if day in WEEKDAYS else today.isoformat().endswith(day)


def is_yearly(day: str) -> bool:
    """Tell whether a date, in its one form, comes every year."""
    return _EVERY_YEAR.fullmatch(day) is not None


def dates_of(day: str, years: Iterable[int]) -> list[date]:
    """Return the dates that are meant by one in its one form: itself, or that of each year."""
    if not is_yearly(day):
        return [date.fromisoformat(day)]
    return [found for year in years if (found := _in_year(year, day)) is not None]


def day_reason(day: str, today: date) -> Phrase:
    """Return why a day that is on excludes a time, in words."""
    return Phrase(f"weekday.{day}") if day in WEEKDAYS else Phrase("excluded.date", date=today.isoformat())


def _in_year(year: int, day: str) -> date | None:
    """Return the date of a year; there is not always a 29 February."""
    try:
        return date.fromisoformat(f"{year:04d}-{day}")
    except ValueError:
        return None
