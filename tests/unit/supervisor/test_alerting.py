"""How a fleet looks for trouble: in time, in turn, seldom. The shipped supervisors and workers, in virtual time."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from alert_receivers import hook
from simulator.world import EPOCH, VirtualClock
from standfast.errors import StoreUnavailableError
from standfast.events import Events
from standfast.model.alerts import AlertRule, Check, Notice, NoticeKind
from standfast.model.records import Kind
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.observe.alerts.board import Board, board_in
from standfast.observe.alerts.board_changes import add_rule, amend_rule, filing, remove_rule
from standfast.observe.alerts.channel import CommandChannel, DeadMan
from standfast.observe.alerts.delivery import QUEUE, delivery_jobs, trial_notice
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import BeatAnswer, Turn
from standfast.stores.verb import run_procedure
from standfast.supervisor.alert_pace import EVERY
from standfast.supervisor.alerting import Alerting, NotificationSender
from standfast.worker.storecalls import StoreCalls
from virtual_fleet import Fleet, play

SETTINGS = Settings(url="memory://")
SILENCE = 8.0
DISK_OFF = AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, enabled=False)  # that of this machine
WATCHING = AlertSettings(
    rules=with_defaults((AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=SILENCE), DISK_OFF))
)


async def started(fleet: Fleet, workers: int, watching: AlertSettings = WATCHING) -> None:
    """Start a fleet that looks for trouble."""
    fleet.watching = watching
    await fleet.start_all(workers)


def board(fleet: Fleet) -> Board:
    """Return the board."""
    return board_in(fleet.store.apply(fleet.store.records(Kind.BOARD))).board


def told(fleet: Fleet) -> Sequence[Notice]:
    """Return what was told, in order."""
    records = fleet.store.apply(fleet.store.records(Kind.NOTICE))
    notices = [msgspec.json.decode(record.body, type=Notice) for record in records]
    return sorted(notices, key=lambda notice: notice.at)


@pytest.mark.parametrize("dies", range(5))
def test_a_machine_that_is_gone_is_told_once_and_in_time(dies: int) -> None:
    """Whichever of five it is: also the one whose turn it was to look."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 5)
        await fleet.until(40)
        fleet.kill(fleet.trees[dies])
        at = fleet.clock.now()
        await fleet.until(100)
        fired, resolved = told(fleet)
        assert (fired.kind, resolved.kind) == (NoticeKind.FIRING, NoticeKind.RESOLVED)
        assert {fired.rule, resolved.rule} == {"worker_silent"}
        assert SILENCE - 5 < (fired.at - at).total_seconds() < SILENCE + 3
        assert "was given back" in resolved.title

    play(scenario, SETTINGS)


@pytest.mark.parametrize("dies", range(3))
def test_a_machine_that_was_given_up_before_the_rule_counts_it_silent_is_told_in_time(dies: int) -> None:
    """As by default: a lease is over after half the time that a worker may be silent."""
    watching = AlertSettings(rules=with_defaults((DISK_OFF,)))
    above = next(rule.above or 0.0 for rule in watching.rules if rule.name == "worker_silent")

    async def scenario(fleet: Fleet) -> None:
        assert above > fleet.settings.lease
        await started(fleet, 3, watching)
        await fleet.until(40)
        fleet.kill(fleet.trees[dies])
        at = fleet.clock.now()
        await fleet.until(200)
        fired, resolved = told(fleet)
        assert (fired.kind, resolved.kind) == (NoticeKind.FIRING, NoticeKind.RESOLVED)
        assert {fired.rule, resolved.rule} == {"worker_silent"}
        assert above - fleet.settings.beat_every <= (fired.at - at).total_seconds() < above + 5
        assert board(fleet).missed == ()

    play(scenario, SETTINGS)


@pytest.mark.parametrize("declared", [{"above": 300.0}, {"enabled": False}], ids=["slack", "off"])
def test_a_rule_that_people_change_is_kept_to_in_time(declared: dict[str, Any]) -> None:
    """However slack it was declared, or not at all."""
    rules = tuple(replace(rule, **declared) if rule.name == "worker_silent" else rule for rule in WATCHING.rules)
    changed = next(rule for rule in WATCHING.rules if rule.name == "worker_silent")

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 3, AlertSettings(rules=rules))
        await fleet.until(50)  # the rules are told by then
        run_procedure(fleet.store.apply, amend_rule(fleet.store, changed.name, lambda _: changed))
        await fleet.until(100)
        fleet.kill(fleet.trees[2])
        at = fleet.clock.now()
        await fleet.until(150)
        fired, _ = told(fleet)
        assert (fired.at - at).total_seconds() < SILENCE + 5

    play(scenario, SETTINGS)


@pytest.mark.parametrize("dies", [None, 0], ids=["all live", "who looks dies"])
def test_a_rule_that_people_add_is_kept_to_in_time_and_told_once(dies: int | None) -> None:
    """By a fleet of three, though none of them declares it; also where the one whose turn it is dies meanwhile."""
    added = AlertRule(name="work waits", check=Check.QUEUE_AGE, queue="default", above=20.0)

    async def scenario(fleet: Fleet) -> None:
        ops = CommandChannel(name="ops", command=("true",))
        await started(fleet, 3, replace(WATCHING, channels=(ops,)))
        await fleet.until(50)
        run_procedure(fleet.store.apply, add_rule(fleet.store, added))
        fleet.enqueue([100.0] * 300, lasts=80)  # more than they run at once
        await fleet.until(100)
        if dies is not None:
            fleet.kill(fleet.trees[dies])
        await fleet.until(200)
        [fired] = [notice for notice in told(fleet) if notice.rule == "work waits"]
        assert 120 < (fired.at - EPOCH).total_seconds() < 120 + (10 if dies is None else 25)
        assert "work waits" in {alert.rule for alert in board(fleet).firing}
        run_procedure(fleet.store.apply, remove_rule(fleet.store, "work waits"))
        await fleet.until(250)
        assert "work waits" not in {alert.rule for alert in board(fleet).alerts}
        assert [notice.rule for notice in told(fleet)].count("work waits") == 1

    play(scenario, SETTINGS)


def test_a_notice_names_its_app_also_if_it_has_no_name_of_its_own() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 2, replace(WATCHING, app="shop.jobs:app"))
        await fleet.until(40)
        fleet.kill(fleet.trees[0])
        await fleet.until(60)
        assert told(fleet)[0].labels == {"app": "shop.jobs:app"}

    play(scenario, SETTINGS)


def test_a_healthy_fleet_tells_nothing() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 3)
        fleet.enqueue([20 + place / 10 for place in range(600)], lasts=0.5)
        await fleet.until(300)
        assert board(fleet).alerts == ()
        assert told(fleet) == []

    play(scenario, SETTINGS)


def test_of_several_that_are_gone_at_once_the_rest_tells_in_time() -> None:
    """Also where the first two of three are gone, who looked and who would have been next."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 3)
        await fleet.until(30)
        for tree in fleet.trees[:2]:
            fleet.kill(tree)
        await fleet.until(80)
        fired = [notice for notice in told(fleet) if notice.kind is NoticeKind.FIRING]
        assert sum(len(notice.alerts) for notice in fired) == 2
        assert max((notice.at - EPOCH).total_seconds() for notice in fired) < 30 + SILENCE + 5

    play(scenario, SETTINGS)


@pytest.mark.parametrize("at", [40.0, 44.1])
@pytest.mark.parametrize("seconds", [3, 8, 14, 40])
def test_a_store_that_was_away_makes_nobody_silent(seconds: int, at: float) -> None:
    """Whoever is back first, and looks, waits for the beats of the others."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 5)
        await fleet.until(at)
        fleet.weather.outage = True
        await fleet.until(at + seconds)
        fleet.weather.outage = False
        await fleet.until(at + seconds + 40)
        assert told(fleet) == []

    play(scenario, SETTINGS)


@pytest.mark.parametrize("seconds", [8, 14, 40])
def test_a_machine_that_slept_makes_nobody_silent(seconds: int) -> None:
    """All of its processes stand still, and go on in any order."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 5)
        await fleet.until(44.1)
        for process in fleet.processes:
            process.stop(fleet.clock.boot())
        await fleet.until(44.1 + seconds)
        for process in fleet.processes:
            process.resume()
        await fleet.until(44.1 + seconds + 40)
        assert told(fleet) == []

    play(scenario, SETTINGS)


@pytest.mark.parametrize("at", [40.0, 44.1])
def test_a_supervisor_that_stood_still_says_so_in_its_log(caplog: pytest.LogCaptureFixture, at: float) -> None:
    """Once, and not of a store that was away for as long: nobody else was there to tell people."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1)
        await fleet.until(at)
        fleet.weather.outage = True
        await fleet.until(at + 46)
        fleet.weather.outage = False
        await fleet.until(at + 100)
        assert "stood still" not in caplog.text
        for process in fleet.processes:
            process.stop(fleet.clock.boot())
        await fleet.until(at + 146)
        for process in fleet.processes:
            process.resume()
        await fleet.until(at + 200)
        assert told(fleet) == []

    play(scenario, SETTINGS)
    [line] = [record.getMessage() for record in caplog.records if "stood still" in record.getMessage()]
    assert re.match("stood still for (4[5-9]|5[01])", line)


def test_who_is_gone_since_the_store_was_away_is_told_after() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 5)
        await fleet.until(40)
        fleet.weather.outage = True
        await fleet.until(45)
        fleet.kill(fleet.trees[2])
        await fleet.until(50)
        fleet.weather.outage = False
        await fleet.until(100)
        assert [notice.kind for notice in told(fleet)] == [NoticeKind.FIRING, NoticeKind.RESOLVED]

    play(scenario, SETTINGS)


def test_without_a_rule_about_queues_rounds_are_as_seldom() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1, AlertSettings(rules=(WATCHING.rules[0],)))
        await fleet.until(200)
        rounds = fleet.called("queue_ages")
        assert len(rounds) == pytest.approx(200 / EVERY, abs=1)

    play(scenario, SETTINGS)


@pytest.mark.virtual_time
async def test_who_has_the_first_turn_and_nobody_else_pings_the_dead_mans_switch() -> None:
    """With each beat that the store has answered; not where nothing is watched."""
    clock, events = VirtualClock(), Events()
    calls = StoreCalls(MemoryBackend(clock), clock, events, Random(1), 5.0)
    courier = partial(
        NotificationSender, calls, clock, events, Random(1), supervisor="s", lease=timedelta(seconds=15)
    )
    alerting = Alerting(calls, clock, events, SETTINGS, sender=courier, children=lambda: (), beat_now=lambda: None)
    running = asyncio.ensure_future(alerting.run())

    async def heed(rank: int, path: str, *, enabled: bool = True) -> None:
        alerting.learn(AlertSettings(dead_man=DeadMan(url=f"{receiver.url}/{path}"), enabled=enabled))
        alerting.heed(BeatAnswer(frozenset({"w"}), clock.now(), turns={"w": Turn(rank, 2)}))
        await asyncio.sleep(1)

    with hook(200) as receiver:
        await heed(1, "second")
        await heed(0, "off", enabled=False)
        await heed(0, "first")
        assert receiver.wait_for(1) == [{"path": "/first"}]
    running.cancel()


def test_looking_costs_an_idle_fleet_few_calls() -> None:
    """However many they are: some forty calls more in five minutes, to 160 without."""
    calls: dict[int, int] = {}

    for workers in (1, 2, 10):

        async def scenario(fleet: Fleet, workers: int = workers) -> None:
            await started(fleet, workers)
            await fleet.until(120)
            before = len(fleet.store.calls) - len(fleet.called("beat"))
            await fleet.until(420)
            calls[workers] = len(fleet.store.calls) - len(fleet.called("beat")) - before

        play(scenario, SETTINGS)
    assert calls[1] < 160 + 45
    assert calls[2] == pytest.approx(calls[1], abs=5)
    assert calls[10] == pytest.approx(calls[1], abs=5)


def test_notices_of_long_ago_cost_an_idle_fleet_nothing_and_are_forgotten() -> None:
    """Whoever beats hears of the record that is due first, and looks: a notice is due never."""

    async def scenario(fleet: Fleet) -> None:
        old = replace(trial_notice(fleet.clock.now()), at=fleet.clock.now() - timedelta(days=31))
        fleet.store.apply(fleet.store.change_records([filing(old)]))
        await started(fleet, 3)
        await fleet.until(120)
        assert told(fleet) == []
        assert len(fleet.called("due_records", since=60)) < 10

    play(scenario, SETTINGS)


def test_what_an_app_declares_is_known_by_its_name() -> None:
    """So that apps which share a store leave the alerts of each other alone."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1, replace(WATCHING, app="shop:app"))
        await fleet.until(40)
        assert board(fleet).apps.keys() == {"shop:app"}

    play(scenario, SETTINGS)


def test_what_an_app_declared_is_withdrawn_once_its_alerts_are_switched_off() -> None:
    """So that whoever reads the board knows that nobody looks. What other apps declare stays."""

    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1, replace(WATCHING, app="till:app"))
        await fleet.until(40)
        fleet.kill(fleet.trees[0])
        fleet.watching = replace(WATCHING, app="shop:app")
        tree = fleet.start()
        await fleet.until(100)
        assert board(fleet).apps.keys() == {"shop:app", "till:app"}
        fleet.kill(tree)
        fleet.watching = replace(fleet.watching, enabled=False)
        fleet.start()
        await fleet.until(110)
        assert board(fleet).apps.keys() == {"till:app"}
        version = fleet.store.apply(fleet.store.records(Kind.BOARD))
        await fleet.until(200)
        assert fleet.store.apply(fleet.store.records(Kind.BOARD)) == version

    play(scenario, SETTINGS)


def test_what_could_not_be_withdrawn_is_withdrawn_later() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1)
        await fleet.until(40)
        fleet.kill(fleet.trees[0])
        fleet.watching = replace(fleet.watching, enabled=False)
        records, failures = fleet.store.records, iter(range(3))

        def fail(*args: Any) -> Any:
            if args[0] is Kind.BOARD and next(failures, None) is not None:
                raise StoreUnavailableError("away")
            return records(*args)

        fleet.store.records = fail  # type: ignore[method-assign]
        fleet.start()
        await fleet.until(90)
        assert next(failures, None) is None
        assert board(fleet).apps == {}

    play(scenario, SETTINGS)


def test_deliveries_that_a_person_holds_back_cost_nothing() -> None:
    """While their queue is paused nobody goes out to send them."""

    async def scenario(fleet: Fleet) -> None:
        channel = CommandChannel(name="ops", command=("true",))
        await started(fleet, 1, replace(WATCHING, channels=(channel,)))
        fleet.store.apply(fleet.store.enqueue(delivery_jobs(trial_notice(fleet.clock.now()), ["ops"])))
        fleet.store.apply(fleet.store.pause(QUEUE))
        await fleet.until(100)
        assert fleet.called("register", since=20) == []

    play(scenario, SETTINGS)


def test_who_does_not_watch_asks_nothing() -> None:
    async def scenario(fleet: Fleet) -> None:
        await started(fleet, 1, AlertSettings(rules=WATCHING.rules, enabled=False))
        await fleet.until(100)
        assert fleet.called("queue_ages", "workers") == []

    play(scenario, SETTINGS)
