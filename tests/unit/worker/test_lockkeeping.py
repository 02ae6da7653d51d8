"""A worker has its supervisor keep its locks: what it says, and what it reads."""

import asyncio

import pytest

from standfast import Standfast
from standfast.durable.lockkeeper import Holding
from standfast.model.clock import SystemClock
from standfast.worker.locks import LOST, SLOTS, LockExpiryFile, SupervisedLocks
from standfast.worker.messages import Holds, LetsGo

CLOCK = SystemClock()


class Ear:
    """The line to a supervisor, and what was said over it."""

    def __init__(self) -> None:
        self.heard = []

    def send(self, message) -> None:
        self.heard.append(message)


@pytest.fixture
def ear():
    return Ear()


def holding(name: str = "one", ttl: float = 1.0) -> Holding:
    return Holding("a", name, 7, ttl=ttl, asked_at=CLOCK.boot(), clock=CLOCK)


async def test_what_is_held_is_said_before_the_handler_goes_on(ear, tmp_path) -> None:
    """From the event loop and from a handler's thread alike: what comes next may hold the interpreter."""
    locks = SupervisedLocks(ear, tmp_path / "kept")
    one, two = holding(), holding("two")
    locks.keep(one)
    assert [message.holder for message in ear.heard] == ["one"]
    await asyncio.to_thread(locks.keep, two)
    assert [message.holder for message in ear.heard] == ["one", "two"]
    assert isinstance(ear.heard[1], Holds)
    assert ear.heard[1].asked_at == pytest.approx(two.granted_at)
    locks.let_go(one)
    assert ear.heard[2] == LetsGo("one")


async def test_the_file_says_until_when_it_is_kept(ear, tmp_path) -> None:
    """Later than it is known here, or lost, whatever is known here."""
    locks = SupervisedLocks(ear, tmp_path / "kept")
    held = holding()
    held.kept = locks.keep(held)
    theirs = LockExpiryFile(tmp_path / "kept", create=False)
    later = CLOCK.boot() + 60
    theirs.write(ear.heard[0].slot, later)
    assert held.ends_at == later
    assert not held.lost
    theirs.write(ear.heard[0].slot, LOST)
    assert held.lost


async def test_a_slot_that_is_used_again_says_nothing_of_its_last_holder(ear, tmp_path) -> None:
    locks = SupervisedLocks(ear, tmp_path / "kept")
    theirs = None
    for turn in range(SLOTS + 2):
        held = holding(f"holder-{turn}", ttl=30)
        held.kept = locks.keep(held)
        theirs = theirs or LockExpiryFile(tmp_path / "kept", create=False)
        assert theirs.read(ear.heard[-1].slot) == 0.0
        theirs.write(ear.heard[-1].slot, CLOCK.boot() + 99)
        locks.let_go(held)
        theirs.write(ear.heard[-2].slot, LOST)
        assert not held.lost


async def test_too_many_are_kept_by_the_process_itself(ear, tmp_path) -> None:
    locks = SupervisedLocks(ear, tmp_path / "kept")
    assert all(locks.keep(holding(f"holder-{number}")) for number in range(SLOTS))
    assert locks.keep(holding("one more")) is None


async def test_without_room_for_the_file_the_process_keeps_them_itself(ear, tmp_path) -> None:
    locks = SupervisedLocks(ear, tmp_path / "missing" / "kept")
    assert locks.keep(holding()) is None
    assert ear.heard == []


async def test_locks_that_were_held_before_there_was_a_supervisor_change_nothing_for_others(ear, tmp_path) -> None:
    """An app may hold one while it is imported, or while its worker starts."""
    with Standfast(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        async with app.lock("migration"):
            pass
        app.deputy = SupervisedLocks(ear, tmp_path / "kept")
        async with app.lock("a"):
            assert [type(message) for message in ear.heard] == [Holds]
        assert [type(message) for message in ear.heard] == [Holds, LetsGo]
