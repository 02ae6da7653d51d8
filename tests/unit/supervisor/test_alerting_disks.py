"""Disks of many machines: only who is there can look at one, whoever has the turn to look for trouble."""

import asyncio
from collections.abc import Sequence
from functools import partial
from random import Random

import msgspec
import pytest
from household import Moody

from simulator.world import VirtualClock
from standfast.events import Events
from standfast.model.alerts import Notice, NoticeKind
from standfast.model.records import Kind
from standfast.observe.alerts.alert_rules import AlertSettings, with_defaults
from standfast.settings import Settings
from standfast.stores.values import BeatAnswer, Turn, WorkerBeat, WorkerInfo
from standfast.supervisor.alert_pace import EVERY
from standfast.supervisor.alerting import Alerting, NotificationSender
from standfast.supervisor.probes import EXAMINED_EVERY, StorageState
from standfast.worker.storecalls import StoreCalls

SETTINGS = Settings(url="memory://")
WATCHING = AlertSettings(rules=with_defaults(()))


class Machines:
    """The supervisors of three machines, each with a worker and a disk, on one store in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = Moody(self.clock)
        self.shares = [0.5, 0.5, 0.5]
        self._alertings = [self._machine(number) for number in range(3)]
        self._tasks = [asyncio.ensure_future(each.run()) for each in self._alertings]

    def _machine(self, number: int) -> Alerting:
        events, lease = Events(), SETTINGS.lease_span
        verbs = self.backend.verbs
        self.backend.run(verbs.register(WorkerInfo(f"w{number}", f"s{number}", f"host{number}", 1, lease)))
        calls = StoreCalls(self.backend, self.clock, events, Random(1), 5.0)
        courier = partial(
            NotificationSender, calls, self.clock, events, Random(1), supervisor=f"s{number}", lease=lease
        )

        async def survey() -> StorageState:
            return StorageState(disks={f"host{number}:/": self.shares[number]})

        return Alerting(
            calls,
            self.clock,
            events,
            SETTINGS,
            sender=courier,
            children=lambda: (),
            beat_now=lambda: None,
            survey=survey,
        )

    async def live(self, seconds: float) -> None:
        """Let time pass, and all of them beat."""
        for _ in range(int(seconds / SETTINGS.beat_every)):
            await asyncio.sleep(SETTINGS.beat_every)
            self.backend.run(self.backend.verbs.beat([WorkerBeat(f"w{number}") for number in range(3)]))
            for rank, alerting in enumerate(self._alertings):
                alerting.learn(WATCHING)
                alerting.heed(BeatAnswer(frozenset({"w"}), self.clock.now(), turns={"w": Turn(rank, 3)}))

    def told(self) -> Sequence[Notice]:
        """Return what was told, in order."""
        records = self.backend.run(self.backend.verbs.records(Kind.NOTICE))
        notices = [msgspec.json.decode(record.body, type=Notice) for record in records]
        return sorted(notices, key=lambda notice: notice.at)


@pytest.mark.virtual_time
@pytest.mark.parametrize("whose", range(3))
async def test_a_full_disk_is_told_once_and_so_is_its_end_whichever_machine_it_is_of(whose: int) -> None:
    machines = Machines()
    await machines.live(60)
    assert machines.told() == []
    machines.shares[whose] = 0.95
    await machines.live(EXAMINED_EVERY + 120)
    [fired] = machines.told()
    assert (fired.rule, fired.alerts[0].subject) == ("disk_full", f"host{whose}:/")
    machines.shares[whose] = 0.5
    await machines.live(EXAMINED_EVERY + 120)
    assert [notice.kind for notice in machines.told()] == [NoticeKind.FIRING, NoticeKind.RESOLVED]


@pytest.mark.virtual_time
async def test_disks_that_are_not_full_are_no_reason_to_look() -> None:
    """But for once, when a machine comes: how they were before, it does not know."""
    machines = Machines()
    await machines.live(60)
    machines.backend.called.clear()
    await machines.live(3 * EXAMINED_EVERY)
    rounds = 3 * EXAMINED_EVERY / EVERY
    assert len(machines.backend.calls_of("workers")) == pytest.approx(rounds, abs=2), "of who has the turn alone"
