"""Schedules in a kit: nothing fires by itself, and everything at its time when the test lets time pass."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from standfast import Context, Cron, Every, ScheduleNotFoundError, Standfast
from standfast.events import ScheduleFired, ScheduleMissed
from standfast.model.records import Decision
from standfast.testing import StandfastKit

HOUR = 3600
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def app(seen):
    made = Standfast("memory://")

    @made.task(schedule=Every(HOUR))
    def hourly(ctx: Context) -> None:
        seen.append((ctx.schedule, ctx.planned_at))

    return made


@pytest.fixture
def kit(app):
    with StandfastKit(app, start=NOON) as kit:
        yield kit


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def test_advancing_alone_fires_nothing(kit, seen):
    kit.advance(HOUR)
    assert kit.drain() == []
    assert kit.enqueued() == []
    assert seen == []


def test_what_is_due_is_fired_and_a_drain_runs_it(kit, seen):
    assert kit.fire_schedules() == []
    kit.advance(HOUR)
    (fire,) = kit.fire_schedules()
    assert (fire.schedule, fire.planned, fire.decision) == ("hourly", at(HOUR), "fired")
    assert kit.fire_schedules() == []
    (run,) = kit.drain()
    assert run.job_id == fire.job_id
    assert seen == [("hourly", at(HOUR))]


def test_nothing_is_fired_ahead_of_its_time(kit):
    kit.advance(HOUR - 1)
    assert kit.fire_schedules() == []
    kit.advance(1)
    assert len(kit.fire_schedules()) == 1


def test_times_that_nobody_was_there_for_are_missed_as_in_life(kit):
    kit.advance(3 * HOUR + 120)
    missed, caught_up = kit.fire_schedules()
    assert (missed.decision, missed.count) == (Decision.MISSED, 2)
    assert (caught_up.decision, caught_up.planned) == (Decision.CAUGHT_UP, at(3 * HOUR))
    assert [type(event) for event in kit.events] == [ScheduleMissed, ScheduleMissed]


def test_living_through_a_day_runs_everything_at_its_time(kit, seen):
    runs = kit.live(timedelta(days=1))
    assert [run.outcome for run in runs] == ["complete"] * 24
    assert seen == [("hourly", at(HOUR * hour)) for hour in range(1, 25)]
    assert kit.clock.now() == NOON + timedelta(days=1)
    assert sum(isinstance(event, ScheduleFired) for event in kit.events) == 24


def test_living_runs_retries_and_delayed_jobs_too(app, kit):
    tries = []

    @app.task(max_attempts=3, backoff=60)
    def shaky(ctx: Context) -> None:
        tries.append(kit.clock.now())
        if ctx.attempt < 3:
            raise ValueError("not yet")

    shaky.options(delay=100).enqueue()
    runs = [run.outcome for run in kit.live(HOUR - 1)]
    assert runs == ["retry", "retry", "complete"]
    assert tries == [at(100), at(160), at(220)]


def test_what_a_retry_is_told_of_its_schedule_is_the_same(kit, app):
    told = []

    @app.task(schedule=Cron("30 12 * * *"), backoff=60)
    def shaky(ctx: Context) -> None:
        told.append((ctx.attempt, ctx.schedule, ctx.planned_at))
        if ctx.attempt == 1:
            raise ValueError("not yet")

    kit.live(HOUR - 1)
    half_past = at(HOUR / 2)
    assert told == [(1, "shaky", half_past), (2, "shaky", half_past)]


def test_a_job_without_a_schedule_has_none(app, kit):
    told = []

    @app.task
    def plain(ctx: Context) -> None:
        told.append((ctx.schedule, ctx.planned_at))

    plain.options(metadata={"standfast.planned": "some day"}).enqueue()
    kit.drain()
    assert told == [(None, None)]


def test_a_schedule_declared_later_counts_from_then(app, kit):
    kit.advance(600)

    @app.task
    def later() -> None: ...

    app.schedule("later", later, Every(HOUR))
    kit.advance(HOUR)
    assert {fire.schedule: fire.planned for fire in kit.fire_schedules()} == {
        "hourly": at(HOUR),
        "later": at(HOUR + 600),
    }


def test_a_hundred_and_more_schedules_are_all_fired(app, kit):
    @app.task
    def one() -> None: ...

    for number in range(120):
        app.schedule(f"number-{number}", one, Every(HOUR))
    kit.advance(HOUR)
    assert len(kit.fire_schedules()) == 121


def test_schedules_are_dealt_with_as_in_life(app, kit):
    app.call(app.schedules.pause("hourly", "a holiday"))
    assert kit.live(2 * HOUR) == []
    app.call(app.schedules.resume("hourly"))
    job_id = app.call(app.schedules.trigger("hourly"))
    (run,) = kit.drain()
    assert run.job_id == job_id
    with pytest.raises(ScheduleNotFoundError, match="did you mean 'hourly'"):
        app.call(app.schedules.get("hurly"))


def test_from_async_code_too(kit):
    runs = asyncio.run(kit.alive(2 * HOUR))
    assert [run.task for run in runs] == ["hourly", "hourly"]


def test_a_kit_that_is_not_in_use_fires_nothing(app):
    with pytest.raises(RuntimeError, match="not in use"):
        StandfastKit(app).fire_schedules()


def test_on_sqlite_as_in_memory(app, seen, tmp_path):
    with StandfastKit(app, url=f"sqlite:///{tmp_path / 'kit.db'}", start=NOON) as kit:
        kit.live(2 * HOUR)
    assert [planned for _, planned in seen] == [at(HOUR), at(2 * HOUR)]
