"""How a schedule stands, and what is to come of it."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import AnyOf, At, Calendar, Cron, Every, Window
from standfast.schedules.schedule import (
    Plan,
    Run,
    Schedule,
    ScheduleStatus,
    Template,
    coming,
    next_fire,
    schedule_status,
    zone_of,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = Every(3600, anchored=True)


def schedule(rule, *, due_at=NOON, cursor=NOON, **plan):
    made = Plan(rule, Template("t", b"{}"), created_at=NOON - HOUR, cursor=cursor, **plan)
    return Schedule("s", 1, made, due_at)


def hours(times):
    return [(each.planned - NOON) / HOUR for each in times]


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        ({}, ScheduleStatus.ACTIVE),
        ({"due_at": None}, ScheduleStatus.DONE),
        ({"due_at": None, "runs": (Run("j", NOON + HOUR),)}, ScheduleStatus.ACTIVE),
        ({"due_at": None, "runs": (Run("j", NOON - HOUR),)}, ScheduleStatus.DONE),
        ({"due_at": None, "paused_at": NOON}, ScheduleStatus.PAUSED),
        ({"due_at": None, "paused_at": NOON, "retired_at": NOON}, ScheduleStatus.RETIRED),
    ],
)
def test_how_it_stands(given, standing):
    assert schedule_status(schedule(HOURLY, **given), NOON) is standing


def test_what_was_fired_ahead_is_still_to_come():
    fired_ahead = schedule(HOURLY, cursor=NOON + HOUR, runs=(Run("j", NOON + HOUR),))
    assert hours(coming(fired_ahead, NOON, 3)) == [1, 2, 3]


def test_what_was_taken_back_is_not():
    assert hours(coming(schedule(HOURLY, cursor=NOON + HOUR), NOON, 3)) == [2, 3, 4]


def test_a_fire_of_an_older_rule_that_stands_is_one_of_them():
    edited = schedule(HOURLY, cursor=NOON + HOUR / 2, runs=(Run("j", NOON + HOUR / 2),))
    assert hours(coming(edited, NOON, 3)) == [0.5, 1, 2]


def test_an_excluded_time_that_is_decided_is_still_told():
    closed = Window("12:30", "13:30")
    times = coming(schedule(Every(3600, anchored=True, exclude=closed), cursor=NOON + HOUR), NOON, 2)
    assert hours(times) == [1, 2]
    assert times[0].excluded is not None


@pytest.mark.parametrize(
    ("exclude", "planned"),
    [
        (Window("12:00", "11:00"), NOON + 23 * HOUR),
        ("sat", NOON + 12 * HOUR),  # which it is
        (["sat", "sun"], NOON + 36 * HOUR),
        (Calendar("office", dates=["06-01"], tz="America/New_York"), NOON + 16 * HOUR),
        ([Window("00:00", "23:00"), "sat"], NOON + 35 * HOUR),
    ],
)
def test_the_next_fire_is_not_an_excluded_one(exclude, planned):
    found = next_fire(schedule(Every(1, anchored=True, exclude=exclude)), NOON)
    assert found is not None
    assert found.planned == planned


def test_a_rule_that_is_always_excluded_has_no_next_fire():
    never = Cron("30 12 * * *", exclude=Window("12:00", "13:00"))
    assert next_fire(schedule(never), NOON) is None


def test_what_stands_still_has_no_next_fire():
    assert next_fire(schedule(HOURLY, paused_at=NOON), NOON) is None
    assert next_fire(schedule(At(NOON), due_at=None), NOON) is None


def test_the_zone_of_a_rule():
    taipei = Cron("0 2 * * *", tz="Asia/Taipei")
    assert str(zone_of(taipei)) == "Asia/Taipei"
    assert str(zone_of(AnyOf(taipei, Every(60)))) == "Asia/Taipei"
    assert zone_of(Every(60)) is None
    assert zone_of(AnyOf(taipei, Cron("0 2 * * *"))) is None
