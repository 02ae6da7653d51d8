"""Cron expressions: what cronsim reads, with nicknames and `H`, and the wall times that they name. Pure."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from standfast.errors import ConfigurationError
from standfast.model.phrases import Nth, Phrase, listed
from standfast.schedules.calendar import ALL_KINDS_OF_YEARS, MONTH_NAMES, WEEKDAYS
from standfast.schedules.description import each, runs, spaced
from standfast.schedules.rules import share

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


class WallTimes(NamedTuple):
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


def read_wall_times(expression: str, name: str) -> WallTimes:
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
def _drawn_face(expression: str, name: str) -> WallTimes:
    return _face_of(expression, settled_fields(expression, name))


def _face_of(expression: str, fields: list[str]) -> WallTimes:
    cron = _read(expression, fields)
    return WallTimes(
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


# Cron expressions in plain words: by the numbers that they mean, however these are written. `0-59/15` and `0,15,30,45`
# are both every 15 minutes; an `H` that is not drawn yet is a minute, an hour or a day "of its own".

_MOST_TIMES = 6
"""So many times of the day are told one by one."""

_LAST, _LAST_WEEKDAY = -1000, -1001
"""What L and LW are to cronsim."""

_NOUNS = ("second", "minute", "hour", "day", "month", "weekday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", _LAST: "last"}
_WORKING_DAYS = [0, 1, 2, 3, 4]


def describe_cron(expression: str, name: str | None) -> tuple[Phrase, bool]:
    """Return an expression in words, and whether these name times of the day, or days, and so depend on a zone.

    `name` is that of the schedule, from which `H` is drawn.
    """
    fields = fields_of(expression) if name is None else settled_fields(expression, name)
    hashed = any(map(is_hashed, fields[:DAY]))
    when, of_the_day = _hashed_times(fields) if hashed else _times(fields)
    months = None if _is_whole(MONTH, fields[MONTH]) else _months(fields[MONTH])
    on = _days(fields, months)
    if on is not None:
        return Phrase("cron.on_days", when=when, on=on), True
    if of_the_day:
        when = Phrase("cron.every_day", when=when)
    return (when, of_the_day) if months is None else (Phrase("cron.in_months", when=when, months=months), True)


def _times(fields: list[str]) -> tuple[Phrase, bool]:
    """Return when within a day, and whether that names times of the day."""
    seconds, minutes, hours = (_numbers(place, fields[place]) for place in (SECOND, MINUTE, HOUR))
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        return Phrase("cron.at", times=listed(_clock(*time) for time in product(hours, minutes, seconds))), True
    whole_hours = len(hours) == len(RANGES[HOUR])
    if seconds == [0]:
        if not whole_hours:
            return _some_hours(minutes, hours), True
        if minutes == [0]:
            return each(1, "hour"), False
        return _spread(MINUTE, minutes) or Phrase("cron.each_hour_at", minutes=_named(MINUTE, minutes)), False
    if whole_hours and len(minutes) == len(RANGES[MINUTE]):
        return _spread(SECOND, seconds) or Phrase("cron.each_minute_at", seconds=_named(SECOND, seconds)), False
    return _second_of(_named(SECOND, seconds), _named(MINUTE, minutes), _named(HOUR, hours)), not whole_hours


def _some_hours(minutes: list[int], hours: list[int]) -> Phrase:
    first, last = _clock(hours[0], minutes[0]), _clock(hours[-1], minutes[-1])
    of_minutes, of_hours = spaced(minutes, RANGES[MINUTE]), spaced(hours, RANGES[HOUR])
    if of_minutes is not None and hours == list(range(hours[0], hours[-1] + 1)):
        often = each(of_minutes, "minute") if len(minutes) > 1 else each(1, "hour")
        return Phrase("cron.from_to", each=often, first=first, last=last)
    if of_hours is not None and len(minutes) == 1:
        return Phrase("cron.from", each=each(of_hours, "hour"), first=first)
    return _minute_of(_named(MINUTE, minutes), _named(HOUR, hours))


def _hashed_times(fields: list[str]) -> tuple[Phrase, bool]:
    """Likewise, where there is an `H` that is not drawn yet."""
    second, minute, hour = fields[:DAY]
    hashed = HASHED.fullmatch(minute)
    if second == "0" and hour == "*":
        if hashed is not None and hashed["low"] is None and hashed["step"] and not 60 % int(hashed["step"]):
            return Phrase("cron.from_own_minute", each=each(int(hashed["step"]), "minute")), False
        return Phrase("cron.each_hour_at", minutes=_said(MINUTE, minute)), False
    if (second, minute, hour) == ("0", "H", "H"):
        return Phrase("cron.at_own_time"), True
    if second == "0" and hashed is not None and not hashed["step"] and hour.isdecimal():
        among = hash_range(MINUTE, hashed)
        first, last = _clock(int(hour), among[0]), _clock(int(hour), among[-1])
        return Phrase("cron.at_own_minute", first=first, last=last), True
    minutes, hours = _said(MINUTE, minute), _said(HOUR, hour)
    told = _minute_of(minutes, hours) if second == "0" else _second_of(_said(SECOND, second), minutes, hours)
    return told, hour != "*"


def _minute_of(minutes: Phrase, hours: Phrase) -> Phrase:
    return Phrase("cron.minute_of", minutes=minutes, hours=hours)


def _second_of(seconds: Phrase, minutes: Phrase, hours: Phrase) -> Phrase:
    return Phrase("cron.second_of", seconds=seconds, minutes=minutes, hours=hours)


def _days(fields: list[str], months: Phrase | None) -> Phrase | None:
    """Return on which days of these months, or None for every day."""
    day, _, weekday = fields[DAY:]
    of_months = months or Phrase("cron.the_month")
    dates = None if _is_whole(DAY, day) else Phrase("cron.on_dates", dates=_dates(day), months=of_months)
    if _is_whole(WEEKDAY, weekday):
        return dates
    weekdays, names_months = _weekdays(weekday, of_months)
    if dates is None:
        plain = months is not None and not names_months
        return Phrase("cron.weekdays_in_months", weekdays=weekdays, months=months) if plain else weekdays
    both = day.startswith("*") or weekday.startswith("*")
    return Phrase("cron.days_both" if both else "cron.days_either", dates=dates, weekdays=weekdays)


def _dates(field: str) -> Phrase:
    if is_hashed(field):
        return _said(DAY, field)
    values = _numbers(DAY, field)
    days = [day for day in values if day > 0]
    if step := _even_step(days):
        told = [Phrase("cron.every_nth_date", nth=Nth(step), first=Nth(days[0]), last=Nth(days[-1]))]
    else:
        told = [
            Phrase("cron.date", date=Nth(first))
            if first == last
            else Phrase("cron.dates", first=Nth(first), last=Nth(last))
            for first, last in runs(days)
        ]
    specials = ((_LAST, Phrase("cron.last_day")), (_LAST_WEEKDAY, Phrase("cron.last_working_day")))
    return listed(told + [phrase for value, phrase in specials if value in values])


def _weekdays(field: str, of_months: Phrase) -> tuple[Phrase, bool]:
    """Return on which weekdays, and whether that says of which months."""
    if is_hashed(field):
        return Phrase("cron.on_own_weekday", weekday=_said(WEEKDAY, field)), False
    values = values_of(WEEKDAY, field)
    days = sorted({(value - 1) % 7 for value in values if isinstance(value, int)})
    told = []
    if days == _WORKING_DAYS:
        told = [Phrase("cron.on_working_days")]
    elif days:
        names = tuple(f"weekdays.{day}" for day in WEEKDAYS)
        told = [Phrase("cron.on_weekdays", days=listed(_run(names, *row) for row in runs(days)))]
    counted = sorted(((value[0] - 1) % 7, value[1]) for value in values if isinstance(value, tuple))
    told += [
        Phrase(
            "cron.on_nth_weekday",
            which=Phrase(f"ordinal.{_ORDINALS[which]}"),
            day=Phrase(f"weekday.{WEEKDAYS[day]}"),
            months=of_months,
        )
        for day, which in counted
    ]
    return listed(told), bool(counted)


def _months(field: str) -> Phrase:
    if is_hashed(field):
        return _said(MONTH, field)
    names = tuple(f"month.{month}" for month in range(13))
    return listed(_run(names, *row) for row in runs(_numbers(MONTH, field)))


def _run(names: tuple[str, ...], first: int, last: int) -> Phrase:
    """Return one thing by its name, or those from one to another."""
    if first == last:
        return Phrase(names[first])
    return Phrase("cron.named_run", first=Phrase(names[first]), last=Phrase(names[last]))


def _said(place: int, field: str) -> Phrase:
    """Return the numbers of a field in words, where some of them may not be drawn yet."""
    if not is_hashed(field):
        return _named(place, _numbers(place, field))
    told = []
    for term in field.split(","):
        hashed = HASHED.fullmatch(term)
        if hashed is None:
            told.append(_named(place, _numbers(place, term)))
            continue
        among = hash_range(place, hashed)
        own = Phrase(f"cron.own.{_NOUNS[place]}")
        if hashed["low"]:
            own = Phrase("cron.own_from_to", own=own, first=among[0], last=among[-1])
        step = hashed["step"]
        told.append(Phrase(f"cron.nth_from.{_NOUNS[place]}", nth=Nth(int(step)), own=own) if step else own)
    return listed(told)


def _named(place: int, numbers: list[int]) -> Phrase:
    """Return numbers with their noun: `every minute`, `minute 5`, `minutes 5, 7 and 10 to 20`."""
    noun = _NOUNS[place]
    if len(numbers) == len(RANGES[place]):
        return each(1, noun)
    if step := _even_step(numbers):
        return Phrase(f"cron.every_nth.{noun}", nth=Nth(step), first=numbers[0], last=numbers[-1])
    rows = [first if first == last else Phrase("list.run", first=first, last=last) for first, last in runs(numbers)]
    return Phrase(f"cron.numbers.{noun}", n=len(numbers), numbers=listed(rows))


def _even_step(numbers: list[int]) -> int | None:
    """Return the distance of many numbers that are not in a row but evenly apart."""
    step = numbers[1] - numbers[0] if len(numbers) > _MOST_TIMES else 1
    return step if step > 1 and numbers == list(range(numbers[0], numbers[-1] + 1, step)) else None


def _spread(place: int, numbers: list[int]) -> Phrase | None:
    """Return numbers that go round evenly in words: `every 15 minutes from minute 7`."""
    step = spaced(numbers, RANGES[place])
    if step is None or len(numbers) == 1:
        return None
    often = each(step, _NOUNS[place])
    return Phrase(f"cron.spread_from.{_NOUNS[place]}", each=often, first=numbers[0]) if numbers[0] else often


def _numbers(place: int, field: str) -> list[int]:
    return sorted(value for value in values_of(place, field) if isinstance(value, int))


def _is_whole(place: int, field: str) -> bool:
    return not is_hashed(field) and set(RANGES[place]) <= values_of(place, field)


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"
