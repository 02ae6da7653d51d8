"""Schedules of which nobody was there when their time came: who comes back tells it, in virtual time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from simulator.world import EPOCH
from standfast import Every
from standfast.model.alerts import AlertRule, Check, Notice, NoticeKind
from standfast.model.records import Change, Decision, Kind
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.schedules import fires
from standfast.schedules.schedule import Template
from standfast.settings import Settings
from standfast.stores.verb import Verb, run_procedure
from virtual_fleet import Fleet, play

SETTINGS = Settings(url="memory://")
DISK_OFF = AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, enabled=False)  # that of this machine
WATCHING = AlertSettings(rules=with_defaults((DISK_OFF,)))
PERIOD = 1200.0
PLANNED = PERIOD - EPOCH.timestamp() % PERIOD
"""When the schedule is to fire, in virtual seconds."""


async def started(fleet: Fleet, workers: int = 2) -> None:
    """Start a fleet with a schedule; its job is enqueued some seconds before its time."""
    fleet.watching = WATCHING
    payload = msgspec.json.encode({"v": 1, "args": {"kind": "ok", "seconds": 0.1}})
    rule, ahead = Every(PERIOD, anchored=True), timedelta(seconds=SETTINGS.look_ahead)
    run_procedure(fleet.store.apply, fires.create(fleet.store, "nightly", rule, Template("work", payload), ahead))
    await fleet.start_all(workers)


def told(fleet: Fleet) -> Sequence[Notice]:
    """Return what was told of schedules, in order."""
    records = fleet.store.apply(fleet.store.records(Kind.NOTICE))
    notices = [msgspec.json.decode(record.body, type=Notice) for record in records]
    return sorted((each for each in notices if each.rule.startswith("schedule")), key=lambda notice: notice.at)


def kill_all(fleet: Fleet) -> None:
    """Let nobody be there."""
    for tree in fleet.trees:
        fleet.kill(tree)


@pytest.mark.parametrize("way", ["killed", "asleep"])
def test_a_time_that_was_fired_ahead_and_for_which_nobody_was_there_is_told_once(way: str) -> None:
    """The history says that it was fired in time. Who comes after the first who tells it leaves it at that."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet)
        await fleet.until(PLANNED - 5)
        [fire] = fleet.store.apply(fleet.store.fires("nightly", 10))
        assert fire.decision is Decision.FIRED
        if way == "killed":
            kill_all(fleet)
        for process in fleet.processes:
            process.stop(fleet.clock.boot())
        await fleet.until(PLANNED + 400)
        for process in fleet.processes:
            process.resume()
        if way == "killed":
            fleet.start()
            fleet.start()
        await fleet.until(PLANNED + 460)
        [notice] = told(fleet)
        assert (notice.kind, notice.rule) == (NoticeKind.FIRING, "schedule_missed")
        assert "schedule nightly: nobody was there 1 time" in notice.title
        assert notice.title.endswith("; it was made up for")
        fleet.kill(fleet.trees[-2])
        await fleet.until(PLANNED + 600)
        assert told(fleet) == [notice]

    play(scenario, SETTINGS)


@pytest.mark.parametrize("way", ["killed", "asleep"])
def test_of_a_schedule_that_is_caught_up_people_are_told_that_it_was_missed_and_no_more(way: str) -> None:
    """Not that it is late, and no longer late, by those who come back and catch up, though the store is slow."""

    async def scenario(fleet: Fleet) -> None:
        call = fleet.call

        async def call_slowly(verb: Verb[Any]) -> Any:
            await asyncio.sleep(1.0 if verb.name == "change_records" else 0.0)
            return await call(verb)

        fleet.call = call_slowly  # type: ignore[method-assign]
        await started(fleet)
        await fleet.until(PLANNED - 100)
        if way == "killed":
            kill_all(fleet)
        for process in fleet.processes:
            process.stop(fleet.clock.boot())
        await fleet.until(PLANNED + 300)
        for process in fleet.processes:
            process.resume()
        if way == "killed":
            fleet.start()
            fleet.start()
        await fleet.until(PLANNED + 420)
        [notice] = told(fleet)
        assert (notice.kind, notice.rule) == (NoticeKind.FIRING, "schedule_missed")

    play(scenario, SETTINGS)


def test_a_schedule_that_those_who_are_there_cannot_fire_is_told_as_late_in_time() -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.watching = WATCHING
        await fleet.start_all(2)
        spoilt = Change(Kind.SCHEDULE, "nightly", 0, "token", b"?", due_at=fleet.clock.now())
        fleet.store.apply(fleet.store.change_records([spoilt]))
        since = fleet.clock.now()
        await fleet.until(150)
        [notice] = told(fleet)
        assert notice.rule == "schedule_late"
        assert 60 < (notice.at - since).total_seconds() < 90

    play(scenario, SETTINGS)


def test_a_job_of_a_schedule_that_started_in_time_is_told_to_nobody() -> None:
    """Nobody was there for a while before and after; what happened in between is no matter."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet)
        await fleet.until(PLANNED - 5)
        kill_all(fleet)
        await fleet.until(PLANNED + 20)
        fleet.start()
        await fleet.until(PLANNED + 100)
        kill_all(fleet)
        await fleet.until(PLANNED + 400)
        fleet.start()
        await fleet.until(PLANNED + 500)
        assert told(fleet) == []

    play(scenario, SETTINGS)


def test_a_job_that_waits_while_others_are_there_is_none_for_which_nobody_was() -> None:
    """Its queue is paused; who has the first turn now came later than its time."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1)
        fleet.store.apply(fleet.store.pause("default"))
        await fleet.until(PLANNED + 10)
        kept = fleet.start()
        await fleet.until(PLANNED + 200)
        fleet.kill(fleet.trees[0])
        fleet.start()
        await fleet.until(PLANNED + 230)
        fleet.store.apply(fleet.store.resume("default"))
        await fleet.until(PLANNED + 700)
        assert kept.process.alive
        assert told(fleet) == []

    play(scenario, SETTINGS)


def test_who_comes_asks_after_few_jobs_and_once() -> None:
    """However many times it looks at schedules afterwards."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet)
        await fleet.until(PLANNED + 200)
        kill_all(fleet)
        await fleet.until(PLANNED + 250)
        fleet.start()
        await fleet.until(PLANNED + 1000)
        assert len(fleet.called("fires", since=PLANNED + 250)) >= 2
        assert len(fleet.called("history", since=PLANNED + 250)) == 1

    play(scenario, SETTINGS)
