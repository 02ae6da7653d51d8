"""Locks on PostgreSQL, where many ask at the same time, and a call that nobody waits for goes on in the server."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from standfast import Standfast


@pytest.fixture
def app(postgres_url):
    with Standfast(postgres_url) as app:
        yield app


def test_who_tries_once_has_one_of_the_places_that_are_free(app):
    """However many try at the same time: that others came before is no reason to say that none is free."""
    crowd = 30
    held = [app.semaphore("api", crowd) for _ in range(crowd)]
    began = threading.Barrier(crowd)

    def try_once(lock):
        began.wait(10)
        return lock.acquire(timeout=0)

    with ThreadPoolExecutor(crowd) as pool:
        assert all(pool.map(try_once, held))


async def test_a_place_that_is_granted_after_its_acquire_was_cancelled_is_given_back(
    app, shared_postgres, postgres_schema
):
    """Somebody else has the row for a while: the grant comes through when its caller has long been cancelled."""
    async with app.lock("a"):
        pass
    async with await psycopg.AsyncConnection.connect(shared_postgres) as other:
        await other.execute(SQL("SELECT 1 FROM {}.record FOR UPDATE").format(Identifier(postgres_schema)))
        acquiring = asyncio.ensure_future(app.lock("a").aacquire())
        while not await _waits_for(other):  # noqa: ASYNC110 - it is the server that changes it
            await asyncio.sleep(0.01)
        acquiring.cancel()
        await asyncio.wait([acquiring], timeout=0.5)
        while app.keepers().leaving():  # noqa: ASYNC110 - it is another thread that changes it
            await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    assert await app.lock("a").aacquire(timeout=5)


async def _waits_for(other: psycopg.AsyncConnection) -> bool:
    """Tell whether somebody waits for this connection."""
    found = await other.execute("SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))")
    row = await found.fetchone()
    return bool(row and row[0])
