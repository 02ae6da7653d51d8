"""Rules in plain words, and what is to come of them. Pure."""

from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import islice

import msgspec

from holdfast.schedule.calendar import Calendar
from holdfast.schedule.days import MONTH_NAMES, WEEKDAY_NAMES, WEEKDAYS
from holdfast.schedule.rules import AnyOf, At, Cron, Every, Ground, Rule
from holdfast.schedule.spoken import every_span, joined, moment_words, span_words
from holdfast.schedule.window import Window
from holdfast.words import counted

_A_DAY = 86400
_FEW = 3
"""So many moments are told one by one."""


class Upcoming(msgspec.Struct, frozen=True):
    """One planned time of a rule: when its run starts or why it does not, and what changed clocks do to it."""

    planned: datetime
    run_at: datetime
    excluded: str | None = None
    note: str | None = None


def upcoming(rule: Rule, ground: Ground, after: datetime, count: int) -> tuple[Upcoming, ...]:
    """Return the next planned times after a moment, with those that are excluded."""
    return tuple(
        Upcoming(planned, rule.run_at(planned, ground), rule.excluded(planned), rule.note(planned, ground))
        for planned in islice(rule.times_after(after, ground), count)
    )


def describe(rule: Rule, ground: Ground | None = None) -> str:
    """Return what a rule means, in plain words; what an `H` in it stands for is known where there is a ground."""
    return ", ".join([_times(rule, ground), *_limits(rule)])


def _times(rule: Rule, ground: Ground | None) -> str:
    match rule:
        case Cron():
            return _cron(rule, ground)
        case Every(interval=interval, anchored=anchored):
            told = every_span(interval)
            since = "midnight" if _A_DAY % interval == 0 else "1970-01-01 00:00"
            return f"{told}, counted from {since} UTC" if anchored else told
        case At(moments=moments) if len(moments) > _FEW:
            return f"at {len(moments)} moments from {moment_words(moments[0])} to {moment_words(moments[-1])}"
        case At(moments=moments):
            return f"once at {joined(map(moment_words, moments))}"
        case AnyOf(rules=rules):
            return "; or ".join(describe(each, ground) for each in rules)
    raise NotImplementedError


def _cron(rule: Cron, ground: Ground | None) -> str:
    from holdfast.schedule.cronwords import describe_cron  # noqa: PLC0415 - for those who have one

    told, by_the_clock = describe_cron(rule.expression, None if ground is None else ground.name)
    if not by_the_clock:
        return told
    return f"{told}, UTC" if rule.tz == "UTC" else f"{told}, {rule.tz} time"


def _limits(rule: Rule) -> Iterator[str]:
    if rule.start is not None:
        yield f"from {moment_words(rule.start)}"
    if rule.end is not None:
        yield f"until {moment_words(rule.end)}"
    if rule.exclude:
        yield f"excluding {joined(_exclusions(rule))}"
    if rule.jitter:
        yield f"put off by up to {span_words(rule.jitter)}"


def _exclusions(rule: Rule) -> Iterator[str]:
    days = [each for each in rule.exclude if isinstance(each, str)]
    weekdays = _weekdays(days)
    yield from weekdays
    dates = len(days) - len(weekdays)
    if dates:
        yield counted(dates, "date")
    for each in rule.exclude:
        if isinstance(each, Calendar):
            yield f"the days of the calendar {each.name}"
        elif isinstance(each, Window):
            yield describe_window(each, with_zone=rule.zones() != {each.tz})


def describe_window(window: Window, *, with_zone: bool = True) -> str:
    """Return when a window is on, in plain words."""
    told = f"{window.start}–{window.end}{f' {window.tz}' if with_zone else ''}"
    if window.days is not None:
        told += f" on {joined(_weekdays(window.days))}"
    if window.months is not None:
        told += f" in {joined(MONTH_NAMES[month - 1] for month in window.months)}"
    if window.dates is not None:
        told += f" on {counted(len(window.dates), 'date')}"
    return told


def _weekdays(days: Collection[str]) -> list[str]:
    return [f"{name}s" for name, short in zip(WEEKDAY_NAMES, WEEKDAYS, strict=True) if short in days]
