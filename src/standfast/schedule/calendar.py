"""Calendars: days on which nothing is to run, under a name. Pure."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.phrases import Phrase
from standfast.schedule.days import WEEKDAYS, as_date, as_dates, as_weekdays, day_reason, is_on
from standfast.schedule.zones import check_zone, find_zone
from standfast.spelling import DeclaredStruct

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
