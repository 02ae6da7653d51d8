"""Cron expressions in plain English. Pure.

They are told by the numbers that they mean, however these are written: `0-59/15` and `0,15,30,45` are both every 15
minutes. An `H` that is not drawn yet is a minute, an hour or a day "of its own".
"""

from itertools import product

from holdfast.schedule.days import MONTH_NAMES, WEEKDAY_NAMES
from holdfast.schedule.expression import (
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
from holdfast.schedule.spoken import each, joined, runs, spaced
from holdfast.words import nth

_MOST_TIMES = 6
"""So many times of the day are told one by one."""

_LAST, _LAST_WEEKDAY = -1000, -1001
"""What L and LW are to cronsim."""

_NOUNS = ("second", "minute", "hour", "day", "month", "weekday")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", _LAST: "last"}
_WORKING_DAYS = [0, 1, 2, 3, 4]


def describe_cron(expression: str, name: str | None) -> tuple[str, bool]:
    """Return an expression in words, and whether these name times of the day, or days, and so depend on a zone.

    `name` is that of the schedule, from which `H` is drawn.
    """
    fields = fields_of(expression) if name is None else settled_fields(expression, name)
    hashed = any(map(is_hashed, fields[:DAY]))
    when, of_the_day = _hashed_times(fields) if hashed else _times(fields)
    on = _days(fields)
    if of_the_day and (on is None or on.startswith("in ")):
        when = f"{when} every day"
    return (when, of_the_day) if on is None else (f"{when} {on}", True)


def _times(fields: list[str]) -> tuple[str, bool]:
    """Return when within a day, and whether that names times of the day."""
    seconds, minutes, hours = (_numbers(place, fields[place]) for place in (SECOND, MINUTE, HOUR))
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        return f"at {joined(_clock(*time) for time in product(hours, minutes, seconds))}", True
    whole_hours = len(hours) == len(RANGES[HOUR])
    if seconds == [0]:
        return (_each_hour(minutes), False) if whole_hours else (_some_hours(minutes, hours), True)
    if whole_hours and len(minutes) == len(RANGES[MINUTE]):
        return _each_minute(seconds), False
    return f"at {_named(SECOND, seconds)} of {_named(MINUTE, minutes)} of {_named(HOUR, hours)}", not whole_hours


def _each_minute(seconds: list[int]) -> str:
    return _spread(SECOND, seconds) or f"every minute at {_named(SECOND, seconds)}"


def _each_hour(minutes: list[int]) -> str:
    if minutes == [0]:
        return "every hour"
    return _spread(MINUTE, minutes) or f"every hour at {_named(MINUTE, minutes)}"


def _some_hours(minutes: list[int], hours: list[int]) -> str:
    first, last = _clock(hours[0], minutes[0]), _clock(hours[-1], minutes[-1])
    of_minutes, of_hours = spaced(minutes, RANGES[MINUTE]), spaced(hours, RANGES[HOUR])
    if of_minutes is not None and hours == list(range(hours[0], hours[-1] + 1)):
        return f"{each(of_minutes, 'minute') if len(minutes) > 1 else 'every hour'} from {first} to {last}"
    if of_hours is not None and len(minutes) == 1:
        return f"{each(of_hours, 'hour')} from {first}"
    return f"at {_named(MINUTE, minutes)} of {_named(HOUR, hours)}"


def _hashed_times(fields: list[str]) -> tuple[str, bool]:
    """Likewise, where there is an `H` that is not drawn yet."""
    second, minute, hour = fields[:DAY]
    hashed = HASHED.fullmatch(minute)
    if second == "0" and hour == "*":
        if hashed is not None and hashed["low"] is None and hashed["step"] and not 60 % int(hashed["step"]):
            return f"{each(int(hashed['step']), 'minute')} from a minute of its own", False
        return f"every hour at {_said(MINUTE, minute)}", False
    if (second, minute, hour) == ("0", "H", "H"):
        return "at a time of its own", True
    if second == "0" and hashed is not None and not hashed["step"] and hour.isdecimal():
        among = hash_range(MINUTE, hashed)
        return f"at a minute of its own from {_clock(int(hour), among[0])} to {_clock(int(hour), among[-1])}", True
    within = f"{_said(MINUTE, minute)} of {_said(HOUR, hour)}"
    return f"at {within}" if second == "0" else f"at {_said(SECOND, second)} of {within}", hour != "*"


def _days(fields: list[str]) -> str | None:
    """Return on which days, or None for every day."""
    day, month, weekday = fields[DAY:]
    in_months = None if _is_whole(MONTH, month) else _months(month)
    of_months = in_months or "the month"
    on_dates = None if _is_whole(DAY, day) else f"on {_dates(day)} of {of_months}"
    on_weekdays = None if _is_whole(WEEKDAY, weekday) else _weekdays(weekday, of_months)
    if on_dates is None and on_weekdays is None:
        return None if in_months is None else f"in {in_months}"
    if on_dates is None or on_weekdays is None:
        plain = on_dates is None and in_months is not None and f"of {of_months}" not in str(on_weekdays)
        return f"{on_weekdays} in {in_months}" if plain else on_dates or on_weekdays
    both = day.startswith("*") or weekday.startswith("*")
    return f"{on_dates}, but only {on_weekdays}" if both else f"{on_dates} or {on_weekdays}"


def _dates(field: str) -> str:
    if is_hashed(field):
        return _said(DAY, field)
    values = _numbers(DAY, field)
    days = [day for day in values if day > 0]
    specials = ((_LAST, "the last day"), (_LAST_WEEKDAY, "the last weekday"))
    if step := _even_step(days):
        told = [f"every {nth(step)} day from the {nth(days[0])} to the {nth(days[-1])}"]
    else:
        told = [f"the {run}" for run in runs(days, nth)]
    return joined(told + [words for value, words in specials if value in values])


def _weekdays(field: str, of_months: str) -> str:
    if is_hashed(field):
        return f"on {_said(WEEKDAY, field)}"
    values = values_of(WEEKDAY, field)
    days = sorted({(value - 1) % 7 for value in values if isinstance(value, int)})
    told = []
    if days == _WORKING_DAYS:
        told = ["on weekdays"]
    elif days:
        told = [f"on {joined(runs(days, lambda day: f'{WEEKDAY_NAMES[day]}s'))}"]
    counted = sorted(((value[0] - 1) % 7, value[1]) for value in values if isinstance(value, tuple))
    told += [f"on the {_ORDINALS[which]} {WEEKDAY_NAMES[day]} of {of_months}" for day, which in counted]
    return joined(told)


def _months(field: str) -> str:
    if is_hashed(field):
        return _said(MONTH, field)
    return joined(runs(_numbers(MONTH, field), lambda month: MONTH_NAMES[month - 1]))


def _said(place: int, field: str) -> str:
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
        article = "an" if _NOUNS[place] == "hour" else "a"
        own = f"{article} {_NOUNS[place]} of its own"
        own += f" from {among[0]} to {among[-1]}" if hashed["low"] else ""
        told.append(f"every {nth(int(hashed['step']))} {_NOUNS[place]} from {own}" if hashed["step"] else own)
    return joined(told)


def _named(place: int, numbers: list[int]) -> str:
    """Return numbers with their noun: `every minute`, `minute 5`, `minutes 5, 7 and 10 to 20`."""
    if len(numbers) == len(RANGES[place]):
        return f"every {_NOUNS[place]}"
    if step := _even_step(numbers):
        return f"every {nth(step)} {_NOUNS[place]} from {numbers[0]} to {numbers[-1]}"
    return f"{_NOUNS[place]}{'s' if len(numbers) > 1 else ''} {joined(runs(numbers))}"


def _even_step(numbers: list[int]) -> int | None:
    """Return the distance of many numbers that are not in a row but evenly apart."""
    step = numbers[1] - numbers[0] if len(numbers) > _MOST_TIMES else 1
    return step if step > 1 and numbers == list(range(numbers[0], numbers[-1] + 1, step)) else None


def _spread(place: int, numbers: list[int]) -> str | None:
    """Return numbers that go round evenly in words: `every 15 minutes from minute 7`."""
    step = spaced(numbers, RANGES[place])
    if step is None or len(numbers) == 1:
        return None
    told = each(step, _NOUNS[place])
    return f"{told} from {_NOUNS[place]} {numbers[0]}" if numbers[0] else told


def _numbers(place: int, field: str) -> list[int]:
    return sorted(value for value in values_of(place, field) if isinstance(value, int))


def _is_whole(place: int, field: str) -> bool:
    return not is_hashed(field) and set(RANGES[place]) <= values_of(place, field)


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"
