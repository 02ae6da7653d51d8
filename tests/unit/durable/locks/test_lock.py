"""Locks as code uses them, on a real store: blocks and waiting."""

import asyncio
import threading
import time

import pytest
from lock_stage import SHORT, await_for, line, wait_for

from standfast import StoreUnavailableError
from standfast.errors import LockStateError, LockTimeoutError
from standfast.testing import FakeClock


def test_a_block_holds_it_and_gives_it_back(app) -> None:
    with app.lock("a") as lock:
        assert lock.held
        assert not lock.lost
        assert not app.lock("a").acquire(timeout=0)
        first = lock.token
    assert not lock.held
    with lock:
        assert lock.token > first


async def test_an_async_block_does_the_same(app) -> None:
    async with app.lock("a") as lock:
        assert lock.held
        assert not await app.lock("a").aacquire(timeout=0)
    assert await app.lock("a").aacquire(timeout=0)


async def test_a_plain_block_on_the_event_loop_is_refused(app) -> None:
    """Who holds it might run on the same loop, and could never give it back. To try once keeps nobody waiting."""
    with pytest.raises(LockStateError, match=r"waiting for lock 'a' would block the event loop: write `async with"):
        app.lock("a").__enter__()
    assert app.lock("a").acquire(timeout=0)


def test_it_is_renewed_for_as_long_as_it_is_held(app) -> None:
    with app.lock("a", ttl=SHORT) as lock:
        for _ in range(6):
            assert not app.lock("a", ttl=SHORT).acquire(timeout=SHORT / 2)
        assert lock.held


def test_a_block_that_cannot_have_it_in_time_is_not_entered(app) -> None:
    with app.lock("a"):
        with pytest.raises(LockTimeoutError, match=r"'a' was not free within 0.1 s"), app.lock("a", timeout=0.1):
            pytest.fail("two hold it")
        with pytest.raises(TimeoutError), app.lock("a", timeout=0):
            pytest.fail("two hold it")


def test_who_waits_has_it_after_the_holder(app) -> None:
    lock, waited = app.lock("a"), app.lock("a")
    assert lock.acquire()
    waiter = threading.Thread(target=waited.acquire)
    waiter.start()
    wait_for(lambda: line(app))
    lock.release()
    waiter.join(10)
    assert waited.held
    waited.release()


def test_who_gives_up_waiting_leaves_the_line(app) -> None:
    with app.lock("a"):
        assert not app.lock("a").acquire(timeout=0.2)
        assert not line(app)


async def test_who_is_cancelled_while_it_waits_leaves_the_line(app) -> None:
    async with app.lock("a"):
        waiting = asyncio.ensure_future(app.lock("a").aacquire())
        await await_for(lambda: line(app))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await await_for(lambda: not line(app))


def test_a_semaphore_has_its_places(app) -> None:
    held = [app.semaphore("api", 3) for _ in range(3)]
    assert all(each.acquire(timeout=0) for each in held)
    assert not app.semaphore("api", 3).acquire(timeout=0)
    assert app.semaphore("api", 4).acquire(timeout=0), "who says 4 goes by 4"
    assert not app.semaphore("api", 2).acquire(timeout=0)
    assert not app.lock("api").acquire(timeout=0), "a lock is a semaphore of one place"


def test_a_store_that_is_away_now_and_then_ends_no_long_wait(app, monkeypatch) -> None:
    """Each time that it is away it is tried again for `retry_for` seconds, from then on."""
    monkeypatch.setattr(type(app), "retry_for", 0.5)
    run, began = app.backend.run, time.monotonic()
    with app.lock("a"):

        def moody(verb):
            if 0.1 < (time.monotonic() - began) % 1 < 0.2:
                raise StoreUnavailableError("away")
            return run(verb)

        monkeypatch.setattr(app.backend, "run", moody)
        assert not app.lock("a").acquire(timeout=2.8)
        monkeypatch.setattr(app.backend, "run", run)


def test_a_clock_that_stands_still_keeps_nobody_waiting_for_ever(app, monkeypatch) -> None:
    """In a test with the kit, time passes only when the test says so."""
    monkeypatch.setattr(app, "clock", FakeClock())
    with app.lock("a"):
        assert not app.lock("a").acquire(timeout=0.1)
