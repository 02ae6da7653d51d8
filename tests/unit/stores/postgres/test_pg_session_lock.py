"""Session locks: held by a connection, freed by the server the moment it dies."""

import asyncio
import json

import psycopg
import pytest
from click.testing import CliRunner

from standfast import ConfigurationError, Standfast, StoreUnavailableError
from standfast.cli.main import cli
from standfast.errors import LockLostError, LockStateError


@pytest.fixture
def app(postgres_url):
    with Standfast(postgres_url) as app:
        yield app


def end_session(app, url):
    """End the session that holds lock a, as a restart of the server would."""
    number = app.backend.session_line("a").number
    with psycopg.connect(url, autocommit=True) as own:
        [[ended]] = own.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_locks"
            " WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = %s",
            (number,),
        )
    return ended


def test_one_holds_it_and_tokens_grow(app):
    """Also beside the tokens of a lock of the same name without a session."""
    with app.lock("a") as leased:
        first = leased.token
    lock = app.lock("a", session=True)
    with lock:
        assert lock.held
        second = lock.token
        assert not app.lock("a", session=True).acquire(timeout=0)
        assert not app.lock("a", session=True).acquire(timeout=0.2)
        assert app.lock("b", session=True).acquire(timeout=0)
    assert not lock.held
    with lock:
        assert first < second < lock.token


async def test_async_code_waits_for_it_without_blocking(app):
    async with app.lock("a", session=True) as held:
        waiting = asyncio.ensure_future(app.lock("a", session=True).aacquire())
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        assert held.held
    assert await asyncio.wait_for(waiting, 5)


async def test_who_is_cancelled_while_it_waits_leaves_no_lock_behind(app):
    async with app.lock("a", session=True):
        waiting = asyncio.ensure_future(app.lock("a", session=True).aacquire())
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await app.lock("a", session=True).aacquire(timeout=10)


def test_a_connection_that_dies_is_a_lost_lock(app, shared_postgres):
    lock = app.lock("a", session=True)
    assert lock.acquire()
    assert end_session(app, shared_postgres)
    with app.lock("a", session=True, timeout=5) as other:
        assert lock.lost
        assert other.held
    with pytest.raises(LockLostError):
        lock.release()


def test_a_closed_app_holds_nothing(app, postgres_url):
    """Not by the server either, where nothing ends as long as the connection lives."""
    lock = app.lock("a", session=True)
    assert lock.acquire()
    app.close()
    assert lock.lost
    with Standfast(postgres_url) as other:
        assert other.lock("a", session=True).acquire(timeout=5)


async def test_an_async_block_is_cancelled_when_its_connection_dies(app, shared_postgres):
    async def block():
        async with app.lock("a", session=True):
            end_session(app, shared_postgres)
            await asyncio.sleep(30)
            pytest.fail("nobody cancelled it")

    with pytest.raises(LockLostError):
        await block()


def test_the_two_flavours_of_one_name_do_not_pass_for_each_other(app):
    with app.lock("a"), pytest.raises(LockStateError, match="without session=True"):
        app.lock("a", session=True).acquire(timeout=0)


def test_the_command_names_the_session_that_holds_it(app, postgres_url):
    """And does not say that nobody holds it to those who want to release it."""

    def standfast(*args):
        return CliRunner().invoke(cli, [*args, "--url", postgres_url], prog_name="standfast")

    with app.lock("nightly", session=True):
        [listed] = json.loads(standfast("locks", "--json").output)
        assert listed["session"].startswith("session ")
        assert listed["holders"] == []
        text = standfast("locks").output
        assert "1/1" in text
        assert listed["session"] in text
        refused = standfast("locks", "release", "nightly", "--yes")
        assert refused.exit_code == 1
        assert f"held by {listed['session']}" in refused.output
    [listed] = json.loads(standfast("locks", "--json").output)
    assert listed["session"] is None


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_a_server_that_is_away_is_told_of(timeout):
    """However long it would be tried again: it is not said that somebody else has the lock."""
    with Standfast("postgresql://127.0.0.1:1/none", retry_for=30) as app:
        lock = app.lock("a", session=True)
        with pytest.raises(StoreUnavailableError):
            lock.acquire(timeout=timeout)


def test_a_pooler_is_refused(pgbouncer_url):
    with Standfast(pgbouncer_url) as app, pytest.raises(ConfigurationError, match="pooler=transaction"):
        app.lock("a", session=True)
