"""How a schedule stands, and what is to come of it. Pure."""

from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum

from standfast.schedule.calendar import Calendar
from standfast.schedule.plan import Schedule
from standfast.schedule.rules import Rule
from standfast.schedule.window import Window
from standfast.schedule.words import Upcoming, upcoming
from standfast.schedule.zones import find_zone, first_instant, wall_at

_STEPS = 10
"""So many planned times are looked at one by one for the next that is not excluded."""

_LEAPS = 1000
"""And so many excluded spans are leapt over."""

_MOMENT = timedelta(microseconds=1)


class Standing(StrEnum):
    """How a schedule stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    RETIRED = "retired"
    """Code declared it once, and does so no more."""
    DONE = "done"
    """No time is left."""


def standing_of(schedule: Schedule, now: datetime) -> Standing:
    """Return how it stands."""
    plan = schedule.plan
    if plan.retired_at is not None:
        return Standing.RETIRED
    if plan.paused_at is not None:
        return Standing.PAUSED
    ahead = schedule.due_at is not None or any(run.planned > now for run in plan.runs)
    return Standing.ACTIVE if ahead else Standing.DONE


def coming(schedule: Schedule, now: datetime, count: int) -> tuple[Upcoming, ...]:
    """Return the next planned times, those that are excluded among them.

    A fire ahead of its time that stands though the rule was changed since is one of them.
    """
    plan = schedule.plan
    ahead = {run.planned: Upcoming(run.planned, run.planned) for run in plan.runs if run.planned > now}
    decided = {
        each.planned: each
        for each in upcoming(plan.rule, schedule.ground, now, count)
        if each.planned <= plan.cursor and (each.excluded is not None or each.planned in ahead)
    }
    undecided = upcoming(plan.rule, schedule.ground, max(now, plan.cursor), count)
    known = {**ahead, **decided, **{each.planned: each for each in undecided}}
    return tuple(known[planned] for planned in sorted(known)[:count])


def next_fire(schedule: Schedule, now: datetime) -> Upcoming | None:
    """Return the next planned time that is not excluded; None where there is none, or none for very long."""
    if standing_of(schedule, now) is not Standing.ACTIVE:
        return None
    found = coming(schedule, now, _STEPS)
    for _ in range(_LEAPS):
        fired = next((each for each in found if each.excluded is None), None)
        if fired is not None or not found:
            return fired
        after = _end_of_exclusion(schedule.plan.rule, found[-1].planned) - _MOMENT
        found = upcoming(schedule.plan.rule, schedule.ground, after, 1)
    return None


def _end_of_exclusion(rule: Rule, moment: datetime) -> datetime:
    """Return when that ends which excludes a moment: a window, or a day."""
    for each in rule.exclude:
        if isinstance(each, Window):
            span = each.span_at(moment)
            if span is not None:
                return span[1]
        elif isinstance(each, Calendar) and each.excluded(moment) is not None:
            return _midnight_after(moment, find_zone(each.tz))
    return _midnight_after(moment, zone_of(rule) or UTC)


def _midnight_after(moment: datetime, zone: tzinfo) -> datetime:
    return first_instant(zone, datetime.combine(wall_at(zone, moment).date() + timedelta(days=1), time()))


def zone_of(rule: Rule) -> tzinfo | None:
    """Return the zone by whose clock a rule goes; None where it goes by none, or by several."""
    zones = rule.zones()
    return find_zone(next(iter(zones))) if len(zones) == 1 else None
