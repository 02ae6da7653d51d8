"""A lock that is lost is told of before anybody else can have it; forks and closed apps hold nothing."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from lock_stage import SHORT, holders, wait_for

from standfast import Standfast, StoreUnavailableError
from standfast.durable.lockkeeper import Holding
from standfast.durable.lockstate import free
from standfast.errors import LockLostError, LockStateError
from standfast.testing.clock import FakeClock


def test_a_lock_that_a_person_released_is_lost(app) -> None:
    """The holder hears of it with its next renewal: callback, property, and the end of the block."""
    heard, lock = threading.Event(), app.lock("a", ttl=SHORT)
    lock.when_lost(heard.set)
    lock.__enter__()
    app.call(free(app.verbs, "a"))
    assert heard.wait(10)
    assert lock.lost
    assert not lock.held
    with pytest.raises(LockLostError):
        lock.raise_if_lost()
    with pytest.raises(LockLostError, match="'a' was lost"):
        lock.__exit__(None, None, None)
    assert not lock.lost


def test_what_fails_when_it_hears_of_a_loss_harms_no_other_lock(app) -> None:
    """Nor does it keep others from hearing."""
    heard, lock, other = threading.Event(), app.lock("a", ttl=SHORT), app.lock("b", ttl=SHORT)
    lock.when_lost(heard.set)
    lock.when_lost([].pop)
    lock.when_lost(lambda: 1 / 0)
    assert lock.acquire()
    assert other.acquire()
    app.call(free(app.verbs, "a"))
    assert heard.wait(10)
    time.sleep(SHORT * 2)
    assert other.held


def test_what_a_block_raises_goes_on_though_the_lock_is_lost(app) -> None:
    def block() -> None:
        with app.lock("a", ttl=SHORT):
            app.call(free(app.verbs, "a"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        block()
    assert any("was lost" in note for note in caught.value.__notes__)


async def test_an_async_block_is_cancelled_when_its_lock_is_lost(app) -> None:
    async def block() -> None:
        async with app.lock("a", ttl=SHORT):
            await app.acall(free(app.verbs, "a"))
            await asyncio.sleep(30)
            pytest.fail("nobody cancelled it")

    with pytest.raises(LockLostError):
        await block()
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_a_cancellation_of_others_is_not_taken_for_a_loss(app) -> None:
    entered = asyncio.Event()

    async def block() -> None:
        async with app.lock("a"):
            entered.set()
            await asyncio.sleep(30)

    task = asyncio.ensure_future(block())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert app.lock("a").acquire(timeout=0)


def test_a_holder_that_cannot_renew_knows_before_the_store_gives_it_to_others(app, monkeypatch) -> None:
    """The store does not answer: it is lost a margin before its ttl is over."""

    async def away(_verb):
        raise StoreUnavailableError("away")

    monkeypatch.setattr(app.backend, "arun", away)  # the way of the keeper
    lock = app.lock("a", ttl=SHORT)
    assert lock.acquire()
    until = holders(app)[0].until
    wait_for(lambda: lock.lost)
    assert app.clock.now() < until
    with pytest.raises(LockLostError):
        lock.release()


@pytest.mark.parametrize(("ttl", "margin"), [(0.1, 0.01), (30, 1), (43_200, 43.2)])
def test_a_holder_gives_up_so_much_before_the_store_as_their_clocks_may_drift(ttl, margin) -> None:
    """A second is nothing in half a day."""
    clock = FakeClock()
    holding = Holding("a", "me", 7, ttl=ttl, asked_at=clock.boot(), clock=clock)
    assert clock.boot() + ttl - holding.ends_at == pytest.approx(margin)
    assert holding.granted_at == pytest.approx(clock.boot())


def test_a_closed_app_holds_nothing(app) -> None:
    lock = app.lock("a", ttl=SHORT)
    assert lock.acquire()
    app.close()
    assert lock.lost


def test_a_stopped_holder_does_not_say_that_it_holds(app) -> None:
    """SIGSTOP for longer than the ttl: the first thing that it says afterwards is that it is lost."""
    ready, told = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with Standfast(app.settings.url) as own:
                lock = own.lock("a", ttl=SHORT)
                lock.acquire()
                os.write(ready[1], b"!")
                last, at = 0.0, own.clock.boot()
                while lock.held:
                    last, at = at, own.clock.boot()  # it was held after this was asked, and not only before
                os.write(told[1], f"{last!r} {lock.lost}".encode())
        finally:
            os._exit(0)
    try:
        os.read(ready[0], 1)
        os.kill(pid, signal.SIGSTOP)
        with app.lock("a", timeout=10) as other:  # it has ended by the store's time
            took = app.clock.boot()
            os.kill(pid, signal.SIGCONT)
            last, lost = os.read(told[0], 100).split()
            assert other.held
        assert float(last) < took
        assert lost == b"True"
    finally:
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)


OUTLIVES = """
import sys, threading, time
from standfast import Standfast

def hold():
    with app.lock("a", ttl=0.6) as lock:
        held.set()
        threading.main_thread().join()
        time.sleep(2)
        print(lock.held)

app, held = Standfast(sys.argv[1]), threading.Event()
threading.Thread(target=hold).start()
held.wait()
"""


def test_a_thread_that_outlives_the_main_one_keeps_its_lock(app) -> None:
    """Python gives no threads any more then, to nobody who would work in the background."""
    command = [sys.executable, "-c", OUTLIVES, app.settings.url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_fork_has_no_part_in_what_its_parent_holds(app) -> None:
    """It holds nothing, and leaving the block there gives nothing back."""
    told = os.pipe()
    with app.lock("a") as lock:
        pid = os.fork()
        if pid == 0:
            try:
                held = lock.held or lock.lost
                try:
                    lock.release()
                except LockStateError:
                    lock.__exit__(None, None, None)
                    os.write(told[1], b"%d" % held)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(told[0], 1) == b"0"
        assert lock.held
        assert not app.lock("a").acquire(timeout=0)


def test_what_could_not_be_given_back_is_given_back_later(app, monkeypatch) -> None:
    """The store is away at the end of a block: the block's work is done all the same, nobody waits for a ttl."""
    with app.lock("a", ttl=30):
        run = app.backend.run
        monkeypatch.setattr(app.backend, "run", _away)
    monkeypatch.setattr(app.backend, "run", run)
    assert app.lock("a").acquire(timeout=10)


def _away(_verb):
    raise StoreUnavailableError("away")
