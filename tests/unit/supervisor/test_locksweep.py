"""Locks that nobody has used for long are forgotten, and no others."""

import asyncio
from datetime import timedelta
from random import Random

import pytest
from household import Household

from standfast.durable.lockstate import REMEMBERED, LockRequest, give_back, look_at_all, take
from standfast.events import Events
from standfast.model.records import Change, Kind
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import run_procedure
from standfast.supervisor import housekeeping
from standfast.supervisor.housekeeping import LOCKS_EVERY, SWEEP_EVERY, LockSweep
from standfast.testing.clock import FakeClock
from standfast.worker.storecalls import StoreCalls

TTL = timedelta(hours=12)


class Scene:
    """A store with locks, and the sweep."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.sweep = LockSweep(StoreCalls(self.backend, self.clock, Events(), Random(1), timeout=5.0), self.clock)

    def hold(self, name: str) -> int:
        """Let one have a lock, or have it for longer; return its token."""
        token = run_procedure(
            self.backend.run, take(self.backend.verbs, Kind.LOCK, name, LockRequest("one", TTL))
        ).token
        assert token is not None
        return token

    def use(self, name: str) -> int:
        """Let one have a lock for a moment; return its token."""
        token = self.hold(name)
        run_procedure(self.backend.run, give_back(self.backend.verbs, Kind.LOCK, name, "one"))
        return token

    def locks(self) -> list[str]:
        """Return the names of those that are known."""
        return list(run_procedure(self.backend.run, look_at_all(self.backend.verbs))[1])


async def test_what_nobody_has_used_for_long_is_forgotten() -> None:
    """Neither what is held, nor what was used later, nor what another release wrote; and tokens still grow."""
    scene = Scene()
    first = scene.use("old")
    scene.hold("held")
    scene.backend.run(scene.backend.verbs.change_records([Change(Kind.LOCK, "strange", 0, "token", b'"?"')]))
    for _ in range(REMEMBERED // TTL * 2):
        scene.clock.advance(TTL.total_seconds() / 2)
        scene.hold("held")
    scene.use("young")
    await scene.sweep.bite()
    assert scene.locks() == ["held", "old", "strange", "young"]
    scene.clock.advance(1)
    await scene.sweep.bite()
    assert scene.locks() == ["held", "strange", "young"]
    assert scene.use("old") > first


async def test_a_lock_whose_token_is_ahead_of_the_clock_is_remembered() -> None:
    """The clock was set back: a new token would be a lesser one."""
    scene = Scene()
    scene.use("a")
    scene.clock.step_wall(-2 * REMEMBERED.total_seconds())
    await scene.sweep.bite()
    assert scene.locks() == ["a"]


async def test_many_are_forgotten_a_bite_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next bite follows soon, unless there are no more: then it is an hour until the next look."""
    monkeypatch.setattr(housekeeping, "LOCKS_AT_ONCE", 2)
    scene = Scene()
    for number in range(3):
        scene.use(f"lock-{number}")
    assert not scene.sweep.is_due
    scene.clock.advance(REMEMBERED.total_seconds() + 1)
    assert scene.sweep.is_due
    await scene.sweep.bite()
    assert scene.locks() == ["lock-2"]
    assert scene.sweep.is_due
    await scene.sweep.bite()
    assert scene.locks() == []
    assert not scene.sweep.is_due
    scene.clock.advance(LOCKS_EVERY)
    assert scene.sweep.is_due


@pytest.mark.virtual_time
async def test_a_supervisor_looks_once_an_hour() -> None:
    house = Household()
    house.beat()
    await asyncio.sleep(LOCKS_EVERY - SWEEP_EVERY)
    assert not house.backend.calls_of("records")
    await asyncio.sleep(SWEEP_EVERY * 3)
    assert len(house.backend.calls_of("records")) == 1
