"""Schedules in the hands of a person, at the command line, while a worker runs: on every store."""

from datetime import UTC, datetime, timedelta

import pytest
from fleet import sizes, wait_until

from standfast.model.states import State


@pytest.fixture
def fleet(fleet_on_each_store):
    fleet = fleet_on_each_store
    fleet.start()
    wait_until(fleet.workers, what="a worker")
    return fleet


def schedules(fleet, *words):
    return fleet.standfast_json("schedules", *words)


def completed(fleet, name):
    return fleet.standfast_json("jobs", "list", "--schedule", name, "--state", "completed", "--limit", "500")


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["postgres"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_a_schedule_is_made_changed_stopped_and_forgotten(fleet):
    """Each command is heeded by the worker that runs, and what became of each time is told."""
    arguments = ("--kwarg", "seconds=0.0", "--overlap", "allow", "--misfire", "all")
    made = schedules(fleet, "create", "naps", "nap", "--every", "200ms", "--anchored", *arguments)
    assert (made["state"], made["checked"]) == ("active", False)
    fleet.wait_for_completed(3)
    (listed,) = schedules(fleet)
    assert listed["last"]["decision"] == "fired"
    planned = [job["planned_at"] for job in completed(fleet, "naps")]
    assert len(set(planned)) == len(planned)

    fired = {fire["planned"]: fire for fire in schedules(fleet, "fires", "naps", "--limit", "1000")}
    assert set(planned) <= fired.keys()
    assert {fire["decision"] for fire in fired.values()} <= {"fired", "caught_up"}

    paused_at = schedules(fleet, "pause", "naps", "--why", "enough")["paused_at"]
    assert schedules(fleet, "show", "naps")["paused_why"] == "enough"
    wait_until(lambda: not open_jobs(fleet), what="the end of those that ran")

    schedules(fleet, "edit", "naps", "--every", "1h", "--kwarg", "seconds=0.01")
    resumed = schedules(fleet, "resume", "naps")
    assert (resumed["state"], len(schedules(fleet, "next", "naps", "--count", "3"))) == ("active", 3)

    fires = schedules(fleet, "fires", "naps", "--limit", "100")
    after = [fire for fire in fires if moment(fire["planned"]) > moment(paused_at)]
    assert {fire["decision"] for fire in after} <= {"revoked"}, "many a time has gone by since the pause"

    job_id = schedules(fleet, "trigger", "naps")["job"]
    assert fleet.wait_for(job_id, State.COMPLETED).metadata["standfast.schedule"] == "naps"
    shown = fleet.standfast_json("jobs", "show", job_id)
    assert (shown["schedule"], shown["args"]["seconds"]["value"]) == ("naps", 0.01)
    assert "It comes from schedule 'naps'" in fleet.standfast("why", job_id)

    assert schedules(fleet, "delete", "naps", "--yes")["state"] == "deleted"
    assert schedules(fleet) == []


def moment(text):
    return datetime.fromisoformat(text)


def open_jobs(fleet):
    return [job for job in fleet.jobs() if job.state not in {State.COMPLETED, State.CANCELLED}]


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["sqlite"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_a_backfill_runs_each_time_of_the_past_once(fleet):
    """Jobs for the planned times of a range run at once, each with its own time; a second backfill adds none."""
    schedules(fleet, "create", "hourly", "nap", "--cron", "@hourly", "--kwarg", "seconds=0.0", "--overlap", "allow")
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    between = ("--since", (until - timedelta(hours=149)).isoformat(), "--until", until.isoformat(), "--yes")
    assert schedules(fleet, "backfill", "hourly", *between)["count"] == 150
    fleet.wait_for_completed(150)
    planned = {job["planned_at"] for job in completed(fleet, "hourly")}
    assert len(planned) == 150
    assert schedules(fleet, "backfill", "hourly", *between)["count"] == 0
