"""A worker that is lost is told of, whoever dies, waits or cannot write on the way. In virtual time.

The supervisors and workers are the shipped ones. The lease is over after half the time that a worker may be silent:
so it is given up before, and missed until then.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest
from household import Moody
from msgspec.structs import replace

from alert_receivers import hook, join_pings
from simulator.loop import here
from simulator.world import EPOCH, VirtualClock
from standfast.events import Events, ScheduleMissed
from standfast.model.alerts import AlertRule, Check, Notice, NoticeKind
from standfast.model.records import Kind
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.observe.alerts.board import Board, board_in
from standfast.observe.alerts.channel import CommandChannel, DeadMan
from standfast.settings import Settings
from standfast.stores.values import BeatAnswer, Turn
from standfast.stores.verb import Verb
from standfast.supervisor.alert_pace import CATCHING_UP, EVERY_BUSY
from standfast.supervisor.alerting import Alerting, NotificationSender
from standfast.worker.storecalls import StoreCalls
from virtual_fleet import Fleet, play

T = TypeVar("T")

SETTINGS = Settings(url="memory://")
GONE_AT = 40.0
ABOVE = 30.0
SILENT = AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=ABOVE)
DISK_OFF = AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, enabled=False)  # that of this machine
WATCHING = AlertSettings(rules=with_defaults((SILENT, DISK_OFF)))
IN_TIME = 5.0


async def bereft(fleet: Fleet, workers: int, watching: AlertSettings = WATCHING) -> str:
    """Start a fleet, and let the first of it be gone; return which worker that was."""
    fleet.watching = watching
    await fleet.start_all(workers)
    await fleet.until(GONE_AT)
    [worker] = [name for name, process in fleet.worker_process.items() if process in fleet.trees[0].children]
    fleet.kill(fleet.trees[0])
    return worker


def told_of(fleet: Fleet, worker: str) -> list[float]:
    """Return how long after it was gone people were told that a worker is silent."""
    records = fleet.store.apply(fleet.store.records(Kind.NOTICE))
    notices = [msgspec.json.decode(record.body, type=Notice) for record in records]
    return [
        (notice.at - EPOCH).total_seconds() - GONE_AT
        for notice in notices
        if notice.kind is NoticeKind.FIRING and worker in {alert.subject for alert in notice.alerts}
    ]


def board(fleet: Fleet) -> Board:
    """Return the board."""
    return board_in(fleet.store.apply(fleet.store.records(Kind.BOARD))).board


def is_in_time(told: Sequence[float], within: float = ABOVE) -> bool:
    """Tell whether it was told once, after so many seconds."""
    return len(told) == 1 and within - SETTINGS.beat_every <= told[0] < within + IN_TIME


def kill_at_call(fleet: Fleet, number: int) -> None:
    """Let the supervisor that makes a call of the store die of it: before it is made, and its tree with it."""
    calls, usual = iter(range(number + 1)), fleet.call

    async def call(verb: Verb[T]) -> T:
        tree = next((each for each in fleet.trees if each.process is here.get()), None)
        if tree is not None and verb.name != "beat" and next(calls, None) == number:
            fleet.kill(tree)
        return await usual(verb)

    fleet.call = call  # type: ignore[method-assign]


@pytest.mark.parametrize("number", range(12))
def test_whoever_dies_on_the_way_another_tells_in_time(number: int) -> None:
    """At each call that those who give the worker up make: before it is noted, before its burial, and after."""

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 3)
        await fleet.until(GONE_AT + SETTINGS.lease - 1)
        kill_at_call(fleet, number)
        await fleet.until(GONE_AT + 3 * ABOVE)
        assert is_in_time(told_of(fleet, worker))
        assert sum(not tree.process.alive for tree in fleet.trees) == 2

    play(scenario, SETTINGS)


def test_who_could_not_be_noted_before_its_burial_is_noted_after_it() -> None:
    """The store gives its jobs back, and refuses to write down who is missed."""

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 2)
        fleet.weather.refused, fleet.weather.refuse = "change_records", 1.0
        await fleet.until(GONE_AT + SETTINGS.lease + 5)
        assert len(fleet.called("bury", since=GONE_AT)) == 1
        assert board(fleet).missed == ()
        fleet.weather.refuse = 0.0
        await fleet.until(GONE_AT + 2 * ABOVE)
        assert is_in_time(told_of(fleet, worker))

    play(scenario, SETTINGS)


def test_who_was_noted_by_one_that_was_there_is_told_by_those_who_come_later() -> None:
    """Who noted it goes before the time has come, as in a deployment; who comes has never heard of the worker."""

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 2)
        await fleet.until(GONE_AT + SETTINGS.lease + 1)
        assert [each.info.id for each in board(fleet).missed] == [worker]
        fleet.trees[1].stop()
        fleet.start()
        await fleet.until(GONE_AT + 2 * ABOVE)
        assert is_in_time(told_of(fleet, worker))

    play(scenario, SETTINGS)


def test_who_was_gone_before_the_one_that_noted_it_came_is_not_told() -> None:
    """A fleet that comes back finds its dead."""

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 1)
        fleet.start()
        await fleet.until(GONE_AT + 2 * ABOVE)
        assert len(fleet.called("bury", since=GONE_AT)) == 1
        assert told_of(fleet, worker) == []

    play(scenario, SETTINGS)


def test_who_was_not_sure_looks_again_as_soon_as_it_is() -> None:
    """It stood still itself for a while, so that others may only seem to be silent when it goes on."""
    watching = replace(WATCHING, rules=with_defaults((replace(SILENT, above=8.0), DISK_OFF)))

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 2, watching)
        await fleet.until(GONE_AT + 4)
        fleet.trees[1].process.stop(fleet.clock.boot())
        await fleet.until(GONE_AT + 4 + SETTINGS.lease - 5)
        fleet.trees[1].process.resume()
        await fleet.until(GONE_AT + 4 * ABOVE)
        [told] = told_of(fleet, worker)
        assert told < SETTINGS.lease + SETTINGS.beat_every + CATCHING_UP + IN_TIME

    play(scenario, SETTINGS)


@pytest.mark.parametrize("above", [20.0, 30.0, 35.0])
def test_a_rule_that_is_to_hold_is_kept_to_in_time(above: float) -> None:
    """Who was given up gives no further sign by which somebody would look when it has held for long enough."""
    rule = replace(SILENT, above=above, hold=3.0)
    watching = replace(WATCHING, rules=with_defaults((rule, DISK_OFF)))

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 3, watching)
        await fleet.until(GONE_AT + 4 * ABOVE)
        assert is_in_time(told_of(fleet, worker), above + rule.hold)

    play(scenario, SETTINGS)


def test_that_it_is_over_is_told_soon_though_the_next_round_was_planned_for_later() -> None:
    """Rounds are seldom where all is well; the look that found the alert is no full round."""
    watching, at = replace(WATCHING, rules=with_defaults((replace(SILENT, above=8.0), DISK_OFF))), 58.0

    async def scenario(fleet: Fleet) -> None:
        fleet.watching = watching
        await fleet.start_all(3)
        await fleet.until(at)
        processes = (fleet.trees[2].process, *fleet.trees[2].children)
        for process in processes:
            process.stop(fleet.clock.boot())
        await fleet.until(at + 10)
        [alert] = board(fleet).firing
        for process in processes:
            process.resume()
        await fleet.until(at + 10 + EVERY_BUSY + 2)
        assert board(fleet).alerts == ()
        assert alert.rule == SILENT.name

    play(scenario, SETTINGS)


def test_what_was_told_is_sent_at_once_though_old_notices_cannot_be_forgotten() -> None:
    channel = CommandChannel(name="ops", command=("true",))

    async def scenario(fleet: Fleet) -> None:
        worker = await bereft(fleet, 2, replace(WATCHING, channels=(channel,)))
        usual = fleet.call

        async def call(verb: Verb[T]) -> T:
            answer = await usual(verb)
            if told_of(fleet, worker):
                fleet.weather.refused, fleet.weather.refuse = "due_records", 1.0
            return answer

        fleet.call = call  # type: ignore[method-assign]
        await fleet.until(GONE_AT + 2 * ABOVE)
        [told] = told_of(fleet, worker)
        assert any("AlertFired" in line for line in fleet.trace.lines)
        assert fleet.called("register", since=GONE_AT)[0] < GONE_AT + told + 1

    play(scenario, SETTINGS)


class Bench:
    """The alerts of one supervisor, on a store that can be away, in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = Moody(self.clock)
        self.events = Events()
        calls = StoreCalls(self.backend, self.clock, self.events, Random(1), 5.0)
        courier = partial(
            NotificationSender, calls, self.clock, self.events, Random(1), supervisor="s", lease=timedelta(15)
        )
        self.alerting = Alerting(
            calls, self.clock, self.events, SETTINGS, sender=courier, children=lambda: (), beat_now=lambda: None
        )
        self._running = asyncio.ensure_future(self.alerting.run())

    def heed(self, rank: int) -> None:
        """Let a beat be answered."""
        self.alerting.heed(BeatAnswer(frozenset({"w"}), self.clock.now(), turns={"w": Turn(rank, 2)}))


@pytest.mark.virtual_time
async def test_what_could_not_be_looked_at_is_looked_at_again_also_by_who_has_not_the_first_turn() -> None:
    bench = Bench()
    bench.alerting.learn(WATCHING)
    bench.heed(rank=1)
    bench.backend.away = True
    bench.events.emit(ScheduleMissed("nightly", bench.clock.now(), 1, None, ""))
    await asyncio.sleep(3)
    assert bench.backend.calls_of("records")
    bench.backend.away = False
    back_at = bench.clock.boot()
    await asyncio.sleep(IN_TIME)
    assert [at for at in bench.backend.calls_of("change_records") if at > back_at]
    assert [at for at in bench.backend.calls_of("queue_ages") if at > back_at], "something may wait to be delivered"


@pytest.mark.virtual_time
@pytest.mark.parametrize("trouble", ["away", "damaged"])
async def test_the_dead_mans_switch_is_left_alone_while_nobody_can_look(trouble: str, caplog: Any) -> None:
    """Beats may go on, on SQLite in a file of their own, or beside a record that nobody can make sense of."""
    bench = Bench()
    with hook(200) as receiver:
        setattr(bench.backend, trouble, True)
        bench.alerting.learn(replace(WATCHING, dead_man=DeadMan(url=f"{receiver.url}/failing")))
        bench.heed(rank=1)
        bench.events.emit(ScheduleMissed("nightly", bench.clock.now(), 1, None, ""))
        await asyncio.sleep(20)
        bench.heed(rank=0)
        setattr(bench.backend, trouble, False)
        await asyncio.sleep(IN_TIME)
        assert len(caplog.records) == (trouble == "damaged"), "it is logged once, however often it is tried"
        bench.alerting.learn(replace(WATCHING, dead_man=DeadMan(url=f"{receiver.url}/well")))
        bench.heed(rank=0)
        await asyncio.sleep(1)
        assert receiver.wait_for(1) == [{"path": "/well"}]


@pytest.mark.virtual_time
async def test_the_dead_mans_switch_is_left_alone_while_the_store_takes_no_writes() -> None:
    """Beats are answered and rounds find nothing new; and yet no job would be accepted."""
    bench = Bench()
    with hook(200) as receiver:
        bench.alerting.learn(replace(WATCHING, dead_man=DeadMan(url=f"{receiver.url}/ping", every=5.0)))
        bench.heed(rank=0)
        await asyncio.sleep(60)
        join_pings()
        assert len(receiver.got) == 1
        bench.backend.refused_verb = "change_records"
        for _ in range(10):
            bench.heed(rank=0)
            await asyncio.sleep(5)
            join_pings()
        assert len(receiver.got) == 1
        bench.backend.refused_verb = ""
        bench.heed(rank=0)
        await asyncio.sleep(IN_TIME)
        bench.heed(rank=0)
        await asyncio.sleep(1)
        assert len(receiver.wait_for(2)) >= 2
