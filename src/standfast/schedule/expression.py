"""Cron expressions: what cronsim reads, with nicknames and `H`, and the wall times that they name. Pure."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from standfast.errors import ConfigurationError
from standfast.schedule.days import ALL_KINDS_OF_YEARS, MONTH_NAMES
from standfast.schedule.spread import share

if TYPE_CHECKING:
    from cronsim import CronSim

SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY = range(6)
FIELDS = ("second", "minute", "hour", "day of the month", "month", "day of the week")
RANGES = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HASHED = re.compile(r"H(?:\((?P<low>[0-9]{1,4})-(?P<high>[0-9]{1,4})\))?(?:/(?P<step>[0-9]{1,4}))?")

_TAKES = (
    "0 to 59",
    "0 to 59",
    "0 to 23",
    "1 to 31, L (the last day) or LW (the last weekday)",
    "1 to 12 or JAN to DEC",
    "0 to 7 (0 and 7 are Sunday) or SUN to SAT, 5L (the last Friday) or FRI#2 (the second one)",
)
_EXAMPLE = 'as in Cron("30 2 * * *"), each day at 02:30'
_IN_EVERY_MONTH = 28
_ONE_HOUR = timedelta(hours=1)
_ONE_DAY = timedelta(days=1)

Choice = Callable[[int, range], int]
"""Chooses one of the numbers of a range, for a field."""


class Face(NamedTuple):
    """The wall times of an expression.

    `names_times`: whether it names times of the day, rather than something that comes again and again.
    """

    months: frozenset[int]
    hours: tuple[int, ...]
    within_hour: tuple[timedelta, ...]
    is_day: Callable[[date], bool]
    names_times: bool

    def walls_from(self, first: datetime) -> Iterator[datetime]:
        """Yield the wall times from one on, ascending, as if no clock were ever changed."""
        for day in self.days_from(first.date()):
            midnight = datetime.combine(day, time())
            for hour in self.hours:
                begins = midnight + _ONE_HOUR * hour
                if begins + _ONE_HOUR > first:
                    for minutes in self.within_hour[bisect_left(self.within_hour, first - begins) :]:
                        yield begins + minutes

    def days_from(self, day: date, until: date = date.max) -> Iterator[date]:
        """Yield its days from one on, and before another."""
        while day < until:
            if day.month in self.months:
                if self.is_day(day):
                    yield day
                day += _ONE_DAY
            elif (day.year, day.month) < (until.year, until.month):
                day = (day.replace(day=1) + 31 * _ONE_DAY).replace(day=1)
            else:
                return


def read_face(expression: str, name: str) -> Face:
    """Return the wall times of an expression; the name is the schedule's, from which `H` is drawn."""
    return _drawn_face(expression, name if is_hashed(expression) else "")


@lru_cache(maxsize=1024)
def check_expression(expression: str) -> None:
    """Raise ConfigurationError unless an expression can be read and comes at all, whatever `H` stands for."""
    fields = fields_of(expression)
    for month in RANGES[MONTH] if is_hashed(fields[MONTH]) else (1,):
        settled = _settle(expression, fields, _hardest(month))
        face = _face_of(expression, settled)
        years = ALL_KINDS_OF_YEARS
        if next(face.days_from(date(years.start, 1, 1), date(years.stop, 1, 1)), None) is None:
            raise _never(expression, settled)


def settled_fields(expression: str, name: str) -> list[str]:
    """Return the six fields of an expression with numbers in the place of each `H`."""

    def draw(place: int, among: range) -> int:
        return among[share(len(among), "cron", name, FIELDS[place])]

    return _settle(expression, fields_of(expression), draw)


def fields_of(expression: str) -> list[str]:
    """Return the six fields of an expression, in capitals. Raises ConfigurationError if it has not as many."""
    if expression.startswith("@") and expression.lower() not in NICKNAMES:
        raise ConfigurationError(
            f"there is no cron expression {expression!r}; there are {', '.join(NICKNAMES)}, or fields, {_EXAMPLE}"
        )
    fields = NICKNAMES.get(expression.lower(), expression).upper().split()
    if len(fields) == len(FIELDS) - 1:
        fields.insert(0, "0")
    if len(fields) != len(FIELDS):
        raise ConfigurationError(
            f"the cron expression {expression!r} has {len(fields)} of the five fields: minute, hour, "
            f"day of the month, month, day of the week; or of six, with a second before them; {_EXAMPLE}"
        )
    return fields


def is_hashed(text: str) -> bool:
    """Tell whether an expression or a field of one has an `H` in it."""
    return any(HASHED.fullmatch(term) for field in text.upper().split() for term in field.split(","))


def values_of(place: int, field: str) -> frozenset[int | tuple[int, int]]:
    """Return the numbers that a field without `H` means, and what L, LW and # are to cronsim."""
    from cronsim.cronsim import Field  # noqa: PLC0415 - only where there is a cron expression

    return frozenset(Field(place).parse(field))


@lru_cache(maxsize=256)
def _drawn_face(expression: str, name: str) -> Face:
    return _face_of(expression, settled_fields(expression, name))


def _face_of(expression: str, fields: list[str]) -> Face:
    cron = _read(expression, fields)
    return Face(
        months=frozenset(cron.months),
        hours=tuple(sorted(cron.hours)),
        within_hour=_within_hour(tuple(sorted(cron.minutes)), tuple(sorted(cron.seconds))),
        is_day=cron.match_day,
        names_times=not fields[MINUTE].startswith("*") and not fields[HOUR].startswith("*"),
    )


@lru_cache(maxsize=64)
def _within_hour(minutes: tuple[int, ...], seconds: tuple[int, ...]) -> tuple[timedelta, ...]:
    return tuple(timedelta(minutes=minute, seconds=second) for minute in minutes for second in seconds)


def _read(expression: str, fields: list[str]) -> "CronSim":
    """Return what cronsim makes of the fields: numbers, and days. Of zones it is told nothing."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only where there is a cron expression

    for place, field in enumerate(fields):
        try:
            values_of(place, field)
        except CronSimError:
            raise ConfigurationError(
                f"the cron expression {expression!r} has {field!r} as its {FIELDS[place]}, which takes "
                f"{_TAKES[place]}; also *, 1-5, 1,3 and */15; {_EXAMPLE}"
            ) from None
    try:
        return CronSim(" ".join(fields), datetime(2000, 1, 1))  # noqa: DTZ001 - what a wall shows
    except CronSimError:
        raise _never(expression, fields) from None


def _settle(expression: str, fields: list[str], choose: Choice) -> list[str]:
    """Return the fields with a choice in the place of each `H`."""
    return [
        ",".join(_settle_term(expression, place, term, choose) for term in field.split(","))
        for place, field in enumerate(fields)
    ]


def _settle_term(expression: str, place: int, term: str, choose: Choice) -> str:
    hashed = HASHED.fullmatch(term)
    if hashed is None:
        return term
    among = hash_range(place, hashed)
    step = int(hashed["step"] or 1)
    if not among or not step:
        least, most = RANGES[place][0], RANGES[place][-1]
        raise ConfigurationError(
            f"the cron expression {expression!r} has {term!r} as its {FIELDS[place]}, and H takes a range within "
            f'{least}-{most} and a step of 1 or more; as in Cron("H(0-29) 2 * * *") or Cron("H/15 * * * *")'
        )
    if hashed["step"] is None:
        return str(choose(place, among))
    return ",".join(map(str, range(choose(place, among[:step]), among[-1] + 1, step)))


def hash_range(place: int, hashed: re.Match[str]) -> range:
    """Return the numbers among which an `H` chooses; none if its range is not one of the field's."""
    whole = RANGES[place]
    if hashed["low"] is None:
        return whole[:_IN_EVERY_MONTH] if place == DAY else whole
    low, high = int(hashed["low"]), int(hashed["high"])
    return range(low, high + 1) if low in whole and high in whole else range(0)


def _hardest(month: int) -> Choice:
    """Return a choice of the days that the fewest months have, and of a month."""

    def choose(place: int, among: range) -> int:
        return min(max(month, among[0]), among[-1]) if place == MONTH else among[-1]

    return choose


def _never(expression: str, fields: list[str]) -> ConfigurationError:
    """Return the refusal of an expression whose day there never is."""
    months = sorted(month for month in values_of(MONTH, fields[MONTH]) if isinstance(month, int))
    first = min(day for day in values_of(DAY, fields[DAY]) if isinstance(day, int))  # below 0 for L and LW
    if first > 0 and all((date(2000, month, 1) + (first - 1) * _ONE_DAY).month != month for month in months):
        why = f"there is no {first} {' or '.join(MONTH_NAMES[month - 1] for month in months)}"
    else:
        why = "its days of the month never fall on its days of the week"
    return ConfigurationError(
        f"the cron expression {expression!r} never comes: {why}; for the last day of a month write L, "
        'as in Cron("0 0 L 2 *")'
    )
