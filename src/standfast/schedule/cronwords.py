"""Cron expressions in plain words. Pure.

They are told by the numbers that they mean, however these are written: `0-59/15` and `0,15,30,45` are both every 15
minutes. An `H` that is not drawn yet is a minute, an hour or a day "of its own".
"""

from itertools import product

from standfast.phrases import Nth, Phrase, listed
from standfast.schedule.days import WEEKDAYS
from standfast.schedule.expression import (
    DAY,
    HASHED,
    HOUR,
    MINUTE,
    MONTH,
    RANGES,
    SECOND,
    WEEKDAY,
    fields_of,
    hash_range,
    is_hashed,
    settled_fields,
    values_of,
)
from standfast.schedule.spoken import each, runs, spaced

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
        return (_each_hour(minutes), False) if whole_hours else (_some_hours(minutes, hours), True)
    if whole_hours and len(minutes) == len(RANGES[MINUTE]):
        return _each_minute(seconds), False
    return _second_of(_named(SECOND, seconds), _named(MINUTE, minutes), _named(HOUR, hours)), not whole_hours


def _each_minute(seconds: list[int]) -> Phrase:
    return _spread(SECOND, seconds) or Phrase("cron.each_minute_at", seconds=_named(SECOND, seconds))


def _each_hour(minutes: list[int]) -> Phrase:
    if minutes == [0]:
        return each(1, "hour")
    return _spread(MINUTE, minutes) or Phrase("cron.each_hour_at", minutes=_named(MINUTE, minutes))


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
