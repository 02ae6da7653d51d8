"""Windows: recurring spans in which something holds, such as no new starts. Pure."""

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.model.phrases import Phrase
from standfast.model.suggestions import DeclaredStruct
from standfast.model.validation import MAX_DELAY, Seconds, as_seconds, is_finite, is_int
from standfast.schedules.calendar import (
    ALL_KINDS_OF_YEARS,
    WEEKDAYS,
    as_dates,
    as_weekdays,
    dates_of,
    is_on,
    several,
)
from standfast.schedules.zones import check_zone, find_zone, first_instant, last_instant, wall_at

Span = tuple[datetime, datetime]

_EXAMPLE = 'as in Window("03:00", "03:15", tz="Asia/Taipei")'
_DAY = timedelta(days=1)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_MIDNIGHT = "24:00"
_MONTHS = range(1, 13)
_DAYS_AHEAD = 2 * 366
"""Each weekday of each month comes within these."""
_YEARS_AHEAD = 41
"""A 29 February that is a given weekday comes within these."""


class Window(DeclaredStruct, frozen=True, tag_field="exclude", tag="window"):
    """A recurring span: `Window("03:00", "03:15", tz="Asia/Taipei")` is on each day from 03:00 to before 03:15.

    One that ends at or before the time it starts goes on past midnight; from "00:00" to "24:00" it is a whole day.
    `days` are weekdays, `months` numbers, `dates` dates ("12-25" is one of every year): it begins only on days that
    are among all that are given. `notice`: how long before it begins, in seconds or as a timedelta, running jobs
    are asked to finish. `reason` is told to people.

    Where clocks skip its start or its end, the moment after the skip takes its place; where they skip both, it is
    not on that day. Where they repeat its start or its end, it goes from the first start to the last end: it may be
    longer than it says, and is never shorter. Spans that touch are one.
    """

    start: str
    end: str
    tz: str = "UTC"
    days: tuple[str, ...] | None = None
    months: tuple[int, ...] | None = None
    dates: tuple[str, ...] | None = None
    notice: float = 60.0
    reason: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            start: str | time,
            end: str | time,
            *,
            tz: str = "UTC",
            days: str | Iterable[str] | None = None,
            months: int | Iterable[int] | None = None,
            dates: date | str | Iterable[date | str] | None = None,
            notice: Seconds = 60.0,
            reason: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_zone(self.tz)
        force_setattr(self, "start", _as_time("start", self.start))
        force_setattr(self, "end", _as_time("end", self.end))
        for name, read in (("days", as_weekdays), ("months", _as_months), ("dates", as_dates)):
            given = getattr(self, name)
            force_setattr(self, name, None if given is None else read(given))
        seconds = as_seconds(self.notice)
        if not (is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
            raise ConfigurationError(
                f"notice must be a timedelta or seconds, 0 or more, as in notice=60, not {seconds!r}"
            )
        force_setattr(self, "notice", float(seconds))
        if self.reason is not None and not isinstance(self.reason, str):
            raise ConfigurationError(f'reason must be a text, as in reason="nightly recycle", not {self.reason!r}')
        self._check_days()

    def span_at(self, moment: datetime) -> Span | None:
        """Return the span that covers a moment, if one does."""
        today = self._today(moment)
        for day in (today - 2 * _DAY, today - _DAY, today, today + _DAY):
            piece = _piece(self, day)
            if piece is not None and piece[0] <= moment < piece[1]:
                return self._whole(day, piece)
        return None

    def next_span(self, moment: datetime) -> Span | None:
        """Return the next span that begins at a moment or after it, if one does."""
        last = moment
        for day in self._days_from(self._today(moment) - _DAY):
            piece = _piece(self, day)
            if piece is not None and piece[0] >= last:
                span = self._whole(day, piece)
                if span[0] >= moment:
                    return span
                last = span[1]
        return None

    def excluded(self, moment: datetime) -> Phrase | None:
        """Return why a moment is excluded, in plain words, or None if it is not."""
        if self.span_at(moment) is None:
            return None
        if self.reason is None:
            return Phrase("excluded.window", window=str(self))
        return Phrase("excluded.window_because", window=str(self), reason=self.reason)

    def __str__(self) -> str:
        return f"{self.start}–{self.end} {self.tz}"

    def _check_days(self) -> None:
        dates = (day for each in self.dates or () for day in dates_of(each, ALL_KINDS_OF_YEARS))
        if () in (self.days, self.months) or (self.dates is not None and not any(map(self.begins_on, dates))):
            raise ConfigurationError(f"the window {self} is never on: no day is all that it asks for; {_EXAMPLE}")
        years = ALL_KINDS_OF_YEARS
        first, days = date(years.start, 1, 1), (date(years.stop, 1, 1) - date(years.start, 1, 1)).days
        if self.length == _DAY and all(self.begins_on(first + _DAY * number) for number in range(days)):
            raise ConfigurationError(
                f"the window {self} covers the whole day, every day, so that nothing would ever run; "
                f'shorten it, {_EXAMPLE}, or say on which days it is on, with days=("sat", "sun")'
            )

    @property
    def length(self) -> timedelta:
        """How long it is by the clock: more than nothing, and at most a day."""
        length = _since_midnight(self.end) - _since_midnight(self.start)
        return length if length > timedelta() else length + _DAY

    def begins_on(self, day: date) -> bool:
        """Tell whether it begins on a day."""
        return (
            (self.days is None or WEEKDAYS[day.weekday()] in self.days)
            and (self.months is None or day.month in self.months)
            and (self.dates is None or any(is_on(each, day) for each in self.dates))
        )

    def _today(self, moment: datetime) -> date:
        return wall_at(find_zone(self.tz), moment).date()

    def _days_from(self, first: date) -> Iterator[date]:
        """Yield the days on which it begins, from one on."""
        if self.dates is None:
            near: Iterable[date] = (first + _DAY * number for number in range(_DAYS_AHEAD))
        else:
            years = range(first.year, first.year + _YEARS_AHEAD)
            near = sorted({day for each in self.dates for day in dates_of(each, years) if day >= first})
        return filter(self.begins_on, near)

    def _whole(self, day: date, piece: Span) -> Span:
        """Return the span of a day with all that touches it, of the days before and after."""
        begins, ends = piece
        before, after = day - _DAY, day + _DAY
        while (touching := _piece(self, before)) is not None and touching[1] >= begins:
            begins, before = touching[0], before - _DAY
        while (touching := _piece(self, after)) is not None and touching[0] <= ends:
            ends, after = touching[1], after + _DAY
        return begins, ends


@lru_cache(maxsize=1024)
def _piece(window: Window, day: date) -> Span | None:
    """Return the span that begins on a day, if one does."""
    if not window.begins_on(day):
        return None
    zone = find_zone(window.tz)
    begins = datetime.combine(day, time()) + _since_midnight(window.start)
    span = first_instant(zone, begins), last_instant(zone, begins + window.length)
    return span if span[0] < span[1] else None


def _as_time(name: str, given: Any) -> str:
    """Return a time of the day as "03:00", or as "03:00:30" where there are seconds."""
    if name == "end" and given == _MIDNIGHT:
        return _MIDNIGHT
    found = _TIME.fullmatch(str(given)) if isinstance(given, str | time) else None
    if found is None:
        raise ConfigurationError(f"the {name} of a window must be a time of the day, {_EXAMPLE}, not {given!r}")
    hour, minute, second = found.groups(default="00")
    return f"{hour:0>2}:{minute}" if second == "00" else f"{hour:0>2}:{minute}:{second}"


def _as_months(months: Any) -> tuple[int, ...]:
    for month in several(months):
        if not (is_int(month) and month in _MONTHS):
            raise ConfigurationError(f"a month of a window must be a number from 1 to 12, not {month!r}")
    return tuple(sorted(set(several(months))))


def _since_midnight(at: str) -> timedelta:
    hours, minutes, *seconds = map(int, at.split(":"))
    return timedelta(hours=hours, minutes=minutes, seconds=sum(seconds))
