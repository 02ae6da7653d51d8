"""Rules and windows in plain words, and the next times of a rule. Pure."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import reduce
from itertools import islice

import msgspec

from standfast.model.phrases import Phrase, listed
from standfast.schedules.calendar import WEEKDAYS, Calendar
from standfast.schedules.rules import AnyOf, At, Cron, Every, Ground, Rule
from standfast.schedules.windows import Window

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))
_A_RUN = 3
"""So many numbers in a row are told by the first and the last."""


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending numbers by the first and the last of those in a row, if these are three or more."""
    found: list[tuple[int, int]] = []
    rest = list(numbers)
    while rest:
        row = 1
        while row < len(rest) and rest[row] == rest[0] + row:
            row += 1
        row = row if row >= _A_RUN else 1
        found.append((rest[0], rest[row - 1]))
        del rest[:row]
    return found


def spaced(numbers: Sequence[int], whole: range) -> int | None:
    """Return the distance of ascending numbers that go round a whole evenly, as 7, 22, 37, 52 do an hour."""
    if len(whole) % len(numbers):
        return None
    step = len(whole) // len(numbers)
    return step if list(numbers) == list(range(numbers[0], whole[-1] + 1, step)) else None


def every_span(seconds: float) -> Phrase:
    """Return how often: `every hour`, `every 15 minutes`, `every 1 hour and 30 minutes`."""
    parts = _parts(seconds)
    return each(*parts[0]) if len(parts) == 1 else Phrase("each.span", span=span_phrase(seconds))


def each(number: float, unit: str) -> Phrase:
    """Return how often: `every hour`, `every 2 hours`."""
    return Phrase(f"each.{unit}", n=number)


def span_phrase(seconds: float) -> Phrase:
    """Return a span in full: `1 hour`, `15 minutes`, `1 hour and 30 minutes`."""
    return listed((Phrase(f"span.{unit}", n=number) for number, unit in _parts(seconds)), "span")


def _parts(seconds: float) -> list[tuple[float, str]]:
    parts: list[tuple[float, str]] = []
    rest = seconds
    for unit, length in _UNITS:
        many, rest = divmod(rest, length)
        if many:
            parts.append((int(many), unit))
    if rest:
        parts.append((rest, "second"))
    return parts


_A_DAY = 86400
_FEW = 3
"""So many moments are told one by one."""


class Upcoming(msgspec.Struct, frozen=True):
    """One planned time of a rule: when its run starts or why it does not, and what changed clocks do to it."""

    planned: datetime
    run_at: datetime
    excluded: Phrase | None = None
    note: Phrase | None = None


def upcoming(rule: Rule, ground: Ground, after: datetime, count: int) -> tuple[Upcoming, ...]:
    """Return the next planned times after a moment, with those that are excluded."""
    return tuple(
        Upcoming(planned, rule.run_at(planned, ground), rule.excluded(planned), rule.note(planned, ground))
        for planned in islice(rule.times_after(after, ground), count)
    )


def describe(rule: Rule, ground: Ground | None = None) -> Phrase:
    """Return what a rule means, in plain words; what an `H` in it stands for is known where there is a ground."""
    return reduce(
        lambda heads, tail: Phrase("rule.and", heads=heads, tail=tail), _limits(rule), _times(rule, ground)
    )


def _times(rule: Rule, ground: Ground | None) -> Phrase:
    match rule:
        case Cron():
            return _cron(rule, ground)
        case Every(interval=interval, anchored=True):
            code = "rule.since_midnight" if _A_DAY % interval == 0 else "rule.since_1970"
            return Phrase(code, each=every_span(interval))
        case Every(interval=interval):
            return every_span(interval)
        case At(moments=moments) if len(moments) > _FEW:
            return Phrase("rule.moments", count=len(moments), first=moments[0], last=moments[-1])
        case At(moments=moments):
            return Phrase("rule.once", moments=listed(Phrase("list.one", it=each) for each in moments))
        case AnyOf(rules=rules):
            told = (describe(each, ground) for each in rules)
            return reduce(lambda heads, tail: Phrase("rule.or", heads=heads, tail=tail), told)
    raise NotImplementedError


def _cron(rule: Cron, ground: Ground | None) -> Phrase:
    from standfast.schedules.cron import describe_cron  # noqa: PLC0415 - for those who have one

    told, by_the_clock = describe_cron(rule.expression, None if ground is None else ground.name)
    if not by_the_clock:
        return told
    return Phrase("rule.utc", times=told) if rule.tz == "UTC" else Phrase("rule.zone", times=told, zone=rule.tz)


def _limits(rule: Rule) -> Iterator[Phrase]:
    if rule.start is not None:
        yield Phrase("rule.from", moment=rule.start)
    if rule.end is not None:
        yield Phrase("rule.until", moment=rule.end)
    if rule.exclude:
        yield Phrase("rule.excluding", what=listed(_exclusions(rule)))
    if rule.jitter:
        yield Phrase("rule.put_off", span=span_phrase(rule.jitter))


def _exclusions(rule: Rule) -> Iterator[Phrase]:
    days = [each for each in rule.exclude if isinstance(each, str)]
    weekdays = _weekdays(days)
    yield from weekdays
    dates = len(days) - len(weekdays)
    if dates:
        yield Phrase("rule.dates", n=dates)
    for each in rule.exclude:
        if isinstance(each, Calendar):
            yield Phrase("rule.calendar", calendar=each.name)
        elif isinstance(each, Window):
            yield describe_window(each, with_zone=rule.zones() != {each.tz})


def describe_window(window: Window, *, with_zone: bool = True) -> Phrase:
    """Return when a window is on, in plain words."""
    told = Phrase("window.span", start=window.start, end=window.end)
    if with_zone:
        told = Phrase("window.zoned", window=told, zone=window.tz)
    if window.days is not None:
        told = Phrase("window.on_days", window=told, days=listed(_weekdays(window.days)))
    if window.months is not None:
        told = Phrase(
            "window.in_months", window=told, months=listed(Phrase(f"month.{each}") for each in window.months)
        )
    if window.dates is not None:
        told = Phrase("window.on_dates", window=told, n=len(window.dates))
    return told


def _weekdays(days: Collection[str]) -> list[Phrase]:
    return [Phrase(f"weekdays.{day}") for day in WEEKDAYS if day in days]
