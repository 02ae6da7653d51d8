"""Days as people name them (a weekday, a date, a date of every year), and calendars of them. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.model.phrases import Phrase
from standfast.model.suggestions import DeclaredStruct
from standfast.schedules.zones import check_zone, find_zone

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


_EXAMPLE = (
    'Calendar("office", weekdays=("sat", "sun"), holidays={date(2026, 12, 25): "Christmas"}, tz="Asia/Taipei")'
)


class Calendar(DeclaredStruct, frozen=True, tag_field="exclude", tag="calendar"):
    """Days on which nothing is to run, for any number of schedules.

    Days are those of the calendar's own zone. `dates` and `holidays` take dates, or texts: "2026-12-25", or "12-25"
    for that day of every year.
    """

    name: str
    dates: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()
    holidays: tuple[tuple[str, str], ...] = ()
    tz: str = "UTC"

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            dates: date | str | Iterable[date | str] = (),
            weekdays: str | Iterable[str] = (),
            holidays: Mapping[date | str, str] | Mapping[date, str] | Mapping[str, str] = ...,
            tz: str = "UTC",
        ) -> None: ...

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip()):
            raise ConfigurationError(f"a calendar must have a name, not {self.name!r}; as in {_EXAMPLE}")
        check_zone(self.tz)
        force_setattr(self, "dates", as_dates(self.dates))
        force_setattr(self, "weekdays", as_weekdays(self.weekdays))
        force_setattr(self, "holidays", _as_holidays(self.holidays))
        if not (self.dates or self.weekdays or self.holidays):
            raise ConfigurationError(f"the calendar {self.name!r} has no days; give some, as in {_EXAMPLE}")
        if self.weekdays == WEEKDAYS:
            raise ConfigurationError(
                f"the calendar {self.name!r} has every day of the week, so that nothing would ever run; "
                f"leave one out, as in {_EXAMPLE}"
            )

    def excluded(self, moment: datetime) -> Phrase | None:
        """Return why a moment is excluded, in plain words, or None if it is not."""
        today = moment.astimezone(find_zone(self.tz)).date()
        for day, holiday in self.holidays:
            if is_on(day, today):
                return Phrase("excluded.holiday", date=today.isoformat(), holiday=holiday)
        for day in self.dates + self.weekdays:
            if is_on(day, today):
                return Phrase("excluded.calendar", reason=day_reason(day, today), calendar=self.name)
        return None


def _as_holidays(holidays: Any) -> tuple[tuple[str, str], ...]:
    """Return the names of holidays by their dates, in order."""
    try:
        named = {as_date(day): name for day, name in dict(holidays).items()}
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"holidays must map dates to names, not be {holidays!r:.80}; as in {_EXAMPLE}"
        ) from None
    for day, name in named.items():
        if not (isinstance(name, str) and name.strip()):
            raise ConfigurationError(f"the holiday of {day} must have a name, not {name!r}; as in {_EXAMPLE}")
    return tuple(sorted(named.items()))
