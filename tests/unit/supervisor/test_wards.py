"""The locks of children: kept by their supervisor, told in a file, given back when a child dies."""

import asyncio
from datetime import timedelta

import pytest
from household import Household

from standfast.durable.lockstate import LockRequest, free, look_at_all, take
from standfast.model.records import Kind
from standfast.stores.verb import run_procedure
from standfast.supervisor.locks import HeldLocks
from standfast.worker.locks import LOST, LockExpiryFile
from standfast.worker.messages import Holds

pytestmark = pytest.mark.virtual_time

TTL = 6.0
MARGIN = 0.6


class Scene:
    """A child that holds lock a, and its supervisor."""

    def __init__(self, folder) -> None:
        self.house = Household()
        self.backend = self.house.backend
        self.path = folder / "kept"
        self.file = LockExpiryFile(self.path, create=True)
        self.locks = HeldLocks(self.house.calls, self.house.clock)
        self.running = asyncio.ensure_future(self.locks.run())

    def acquire(self, holder: str, worker: str = "ours", slot: int = 0) -> None:
        """Let a child have the lock, and tell of it."""
        bid = LockRequest(holder, timedelta(seconds=TTL), 20)
        look = run_procedure(self.backend.run, take(self.backend.verbs, Kind.LOCK, "a", bid))
        assert look.token is not None
        self.locks.take(worker, Holds("a", holder, TTL, self.house.clock.boot(), str(self.path), slot))

    def holders(self) -> list[str]:
        """Return who holds it by the store."""
        return [
            each.id for each in run_procedure(self.backend.run, look_at_all(self.backend.verbs))[1]["a"].holders
        ]


@pytest.fixture
def folder(tmp_path):
    return tmp_path


async def test_they_are_renewed_and_the_child_reads_it_in_its_slot(folder) -> None:
    scene = Scene(folder)
    scene.acquire("one", slot=3)
    await asyncio.sleep(TTL * 5)
    assert scene.holders() == ["one"]
    left = scene.file.read(3) - scene.house.clock.boot()
    assert TTL * 2 / 3 - MARGIN - 0.1 <= left <= TTL - MARGIN
    assert scene.file.read(0) == 0.0


async def test_one_errand_is_for_all(folder) -> None:
    """Twenty locks cost three calls at each third of a ttl."""
    scene = Scene(folder)
    for number in range(20):
        scene.acquire(f"holder-{number}", slot=number)
    before = len(scene.backend.called)
    await asyncio.sleep(TTL * 2)
    assert len(scene.backend.called) - before <= 3 * 6
    assert len(scene.holders()) == 20


async def test_one_that_was_let_go_is_left_alone(folder) -> None:
    scene = Scene(folder)
    scene.acquire("one")
    scene.locks.let_go("one")
    await asyncio.sleep(TTL + 1)
    assert scene.holders() == []
    assert scene.file.read(0) == 0.0


async def test_a_dead_child_gives_back_at_once_what_it_had(folder) -> None:
    """And nobody else does."""
    scene = Scene(folder)
    scene.acquire("one", slot=0)
    scene.acquire("two", worker="other", slot=1)
    scene.locks.child_died("ours")
    await scene.locks.all_given_back("ours")
    assert scene.holders() == ["two"]
    assert scene.house.clock.boot() - 0.01 < scene.file.read(1) or scene.file.read(1) == 0.0


async def test_what_a_dead_child_had_is_given_back_when_the_store_is_back(folder) -> None:
    scene = Scene(folder)
    scene.acquire("one")
    scene.backend.away = True
    scene.locks.child_died("ours")
    await asyncio.sleep(TTL / 3)
    scene.backend.away = False
    await scene.locks.all_given_back("ours")
    assert scene.holders() == []


async def test_a_lock_that_was_taken_is_told_as_lost(folder) -> None:
    scene = Scene(folder)
    scene.acquire("one", slot=2)
    run_procedure(scene.backend.run, free(scene.backend.verbs, "a"))
    await asyncio.sleep(TTL / 2)
    assert scene.file.read(2) == LOST


async def test_an_outage_longer_than_the_ttl_is_a_loss(folder) -> None:
    """It is told before the store gives the place to others."""
    scene = Scene(folder)
    scene.acquire("one")
    scene.backend.away = True
    await asyncio.sleep(TTL - MARGIN / 2)
    assert scene.file.read(0) == LOST
    scene.backend.away = False
    assert scene.holders() == ["one"]
