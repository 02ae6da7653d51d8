"""Async callers are served on their event loop, which never waits for anything but its turn."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from msgspec.structs import replace
from pg_world import LONG, of_steps, query

from standfast.errors import KeyTakenError, StoreError, StoreUnavailableError
from standfast.stores.postgres import connect, engine, readiness
from standfast.stores.postgres.engine import THREADS
from standfast.stores.postgres.url import POOL_SIZE
from standfast.stores.postgres.wire import LostError
from standfast.stores.verb import Access, Command, Last, Query, Together, Tone, Try

BIG = "x" * 20_000_000
"""More than a socket takes at once, in either direction."""


async def warm(world):
    """Open a connection, which takes a thread, and return the process that serves it."""
    [(process,)] = await world.engine.arun(query("SELECT pg_backend_pid()"))
    return process


async def test_no_thread_is_needed_once_a_connection_is_open(world, monkeypatch):
    """To hop to a thread and back takes longer than many an answer."""
    await warm(world)
    monkeypatch.setattr(world.engine, "_run", None)
    threads = threading.active_count()
    assert await world.engine.arun(query("SELECT 1")) == [(1,)]
    assert threading.active_count() == threads


async def test_the_loop_goes_on_while_the_server_works(world):
    """Others run meanwhile, and call the store too."""
    process = await warm(world)
    with world.closed_gate() as waits:
        slow = asyncio.create_task(world.engine.arun(query(waits)))
        await asyncio.to_thread(world.wait_for_waiters, 1, waits)
        assert await warm(world) != process
        world.open_gate(waits)
        await slow
    assert await world.engine.arun(query("SELECT 'mine'")) == [("mine",)]


async def test_much_goes_out_and_comes_in(world):
    """In as many pieces as it takes, with both sides full in between."""
    await warm(world)
    assert (
        await asyncio.gather(*(world.engine.arun(query("SELECT $1::text", BIG)) for _ in range(2)))
        == [[(BIG,)]] * 2
    )


async def test_a_crowd_gets_its_answers(world):
    """More calls than connections take turns, on the loop and in threads, and each gets its own answer."""
    calls = [world.engine.arun(query("SELECT $1::bigint", number)) for number in range(20 * POOL_SIZE)]
    assert await asyncio.gather(*calls) == [[(number,)] for number in range(20 * POOL_SIZE)]


def test_a_verb_of_several_statements(world):
    """Each is answered; the last goes with the commit."""

    def steps(table):
        first = yield Command(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two')")
        rows = yield Last(Query(f"SELECT number FROM {table} ORDER BY 1"))
        return first, rows

    async def scene(table):
        await warm(world)
        return await world.engine.arun(of_steps(steps(table)))

    with world.table() as table:
        assert asyncio.run(scene(table)) == (2, [(1,), (2,)])
        assert world.ask(f"SELECT count(*) FROM {table}") == [(2,)]


async def test_a_verb_that_raises_leaves_nothing(world):
    """Its own error comes out, and its connection serves on."""

    def steps(table):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")
        raise KeyTakenError("taken")

    with world.table() as table:
        process = await warm(world)
        with pytest.raises(KeyTakenError):
            await world.engine.arun(of_steps(steps(table)))
        assert await world.engine.arun(query(f"SELECT count(*) FROM {table}")) == [(0,)]
        assert await warm(world) == process


async def test_a_call_may_be_cancelled(world):
    """It leaves its connection behind: the next does not get its answer."""
    with world.closed_gate() as waits:
        process = await warm(world)
        call = asyncio.create_task(world.engine.arun(query(waits)))
        await asyncio.to_thread(world.wait_for_waiters, 1, waits)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await warm(world) != process
    assert len(world.engine._jobs._idle) == 1


async def test_a_longer_call_that_is_cancelled_goes_on(world):
    """In its thread, whole, with a connection that nobody else gets meanwhile."""

    def steps(table, waits):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")
        yield Last(Query(waits))

    with world.table() as table, world.closed_gate() as waits:
        process = await warm(world)
        call = asyncio.create_task(world.engine.arun(of_steps(steps(table, waits))))
        await asyncio.to_thread(world.wait_for_waiters, 1, waits)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await warm(world) != process
        world.open_gate(waits)
        world.engine.close()
        with world.user_connection as own:
            assert own.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    assert not world.engine._jobs._idle


async def test_a_longer_call_that_no_thread_has_taken_yet_may_be_cancelled(world):
    """It did nothing, and its connection is the next one's."""

    def steps(table):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")

    with world.table() as table:
        process = await warm(world)
        with busy_threads(world):
            call = asyncio.create_task(world.engine.arun(of_steps(steps(table))))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await warm(world) == process
            assert await world.engine.arun(query(f"SELECT count(*) FROM {table}")) == [(0,)]


@pytest.mark.parametrize("begun", [True, False])
async def test_to_wait_for_a_thread_counts(world, begun):
    """A call that got none in its time does not begin when it gets one, be it the first or in the middle."""

    def steps(table):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")

    with world.table() as table:
        process = await warm(world)
        world.engine._jobs._kept = 0 if begun else POOL_SIZE
        with busy_threads(world):
            world.engine._timeout = 0.0
            call = asyncio.create_task(world.engine.arun(of_steps(steps(table))))
            await asyncio.sleep(0)
            world.engine._timeout = LONG
        with pytest.raises(StoreUnavailableError, match="did not answer within"):
            await call
        assert await warm(world) == process
        assert world.ask(f"SELECT count(*) FROM {table}") == [(0,)]


@contextmanager
def busy_threads(world):
    """Let the threads for async callers have something else to do."""
    over = threading.Event()
    for _ in range(THREADS):
        world.engine._crews[Access.WRITE].threads.do(partial(over.wait, LONG))
    try:
        yield
    finally:
        over.set()


# -- somebody blocks the loop --------------------------------------------------------------------------------------


async def test_a_blocking_call_finds_a_place_amid_others_of_its_loop(make_world, postgres_url):
    """Only the loop could give theirs back, and it is blocked."""
    world = make_world(postgres_url, timeout=3.0)
    world.engine.prepare()

    def open_all():
        with world.closed_gate() as waits, ThreadPoolExecutor(POOL_SIZE) as threads:
            calls = [threads.submit(world.ask, waits) for _ in range(POOL_SIZE)]
            world.wait_for_waiters(POOL_SIZE, waits)
            world.open_gate(waits)
            for call in calls:
                call.result(LONG)

    open_all()
    assert len(world.engine._jobs._idle) == POOL_SIZE
    calls = [asyncio.create_task(world.engine.arun(query("SELECT 1"))) for _ in range(3 * POOL_SIZE)]
    await asyncio.sleep(0)
    assert world.ask("SELECT 2") == [(2,)]
    assert await asyncio.gather(*calls) == [[(1,)]] * len(calls)


@pytest.mark.parametrize("tried", [True, False])
async def test_a_blocking_call_does_not_wait_for_a_lock_of_its_own_loop(make_world, postgres_url, tried):
    """A transaction of several messages is not left open while the loop is blocked."""
    world = make_world(postgres_url, timeout=3.0)
    lock = "SELECT pg_advisory_xact_lock(77, 77)"

    def steps(table):
        if tried:
            yield Try(Query("SELECT 1"))
        yield Together([Command(f"INSERT INTO {table} VALUES (1)"), Query(lock)])
        yield Query("SELECT 1")

    with world.table() as table:
        await warm(world)
        call = asyncio.create_task(world.engine.arun(of_steps(steps(table))))
        with world.user_connection as own:
            begun = f"SELECT FROM pg_locks WHERE classid = 77 AND granted UNION ALL SELECT FROM {table}"
            while not own.execute(begun).fetchall():  # noqa: ASYNC110 - no turn more than it takes
                await asyncio.sleep(0)
        assert world.ask(lock)
        await call


async def test_an_answer_that_came_while_the_loop_was_blocked_counts(world):
    """Though the time was over when the loop could look."""
    process = await warm(world)
    world.engine._timeout = 0.1
    call = asyncio.create_task(world.engine.arun(query("SELECT 'there'")))
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251 - that is the point
    assert await call == [("there",)]
    world.engine._timeout = LONG
    assert await warm(world) == process


def _reading(end, size):
    read = b""
    while len(read) < size:
        yield False
        read += end.recv(4)
    return read


def test_all_that_came_counts_and_nothing_else():
    """Several pieces of it too; but once the time is over nothing is waited for."""

    async def scene(size):
        mine, other = socket.socketpair()
        with mine, other:
            other.send(b"whatever")
            return await readiness.go_through(readiness.Readiness(mine.fileno()), _reading(mine, size), 0.0)

    assert asyncio.run(scene(8)) == b"whatever"
    with pytest.raises(readiness.OverdueError):
        asyncio.run(scene(9))


async def test_cancelled_calls_cost_no_place(world):
    """However many there were, as many connections as ever can be open."""
    for _ in range(2 * POOL_SIZE):
        await warm(world)
        call = asyncio.create_task(world.engine.arun(query("SELECT pg_sleep(30)")))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    async with asyncio.timeout(LONG):
        await asyncio.gather(*(world.engine.arun(query("SELECT 1")) for _ in range(2 * POOL_SIZE)))


async def test_a_server_that_stands_still_costs_no_more_than_the_time_given(make_world, postgres_server):
    """The call gives up in time, while the loop goes on, and works once the server does."""
    server = postgres_server()
    world = make_world(server.url(), timeout=3.0)

    await warm(world)
    server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="did not answer within"):
            await world.engine.arun(query("SELECT $1::text", BIG))
        assert time.monotonic() - began < LONG
    finally:
        server.cont()
    world.engine._timeout = LONG
    assert await world.engine.arun(query("SELECT 1")) == [(1,)]


async def test_a_connection_that_is_cut_in_use_is_an_error_to_try_again_after(world):
    """What became of the call is not known; the marks of claims are forgotten, and the next call works."""
    await warm(world)
    with world.closed_gate() as waits:
        marks = world.forgotten
        hanging = asyncio.create_task(world.engine.arun(query(waits)))
        await asyncio.to_thread(world.wait_for_waiters, 1, waits)
        with world.user_connection as own:
            own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = %s", (waits,))
        with pytest.raises(StoreUnavailableError):
            await hanging
        assert world.forgotten > marks
    assert await world.engine.arun(query("SELECT 1")) == [(1,)]


async def test_a_call_whose_connections_break_is_repeated_once(world, monkeypatch):
    """A second connection that breaks as well is the end of the call."""
    await warm(world)
    tries = []

    def broken(wire, *_):
        tries.append(wire)
        raise LostError(psycopg.OperationalError("the connection is lost"))

    async def broken_on_the_loop(wire, *_):
        broken(wire)

    monkeypatch.setattr(engine, "run_steps", broken)
    monkeypatch.setattr(engine, "arun_steps", broken_on_the_loop)
    verb = query("SELECT 1")
    with pytest.raises(StoreUnavailableError):
        await world.engine.arun(replace(verb, again=lambda: verb.steps))
    assert len(tries) == 2


async def test_a_connection_in_doubt_is_asked_in_a_thread(world, monkeypatch):
    """The question has to be answered first, for which the loop does not wait."""
    monkeypatch.setattr(connect, "CHECK_AFTER", 0.0)

    process = await warm(world)
    monkeypatch.setattr(world.engine._jobs, "_lately_used_wire", _in_vain(world.engine._jobs))
    before, after = (process, await warm(world))
    assert before == after


def _in_vain(lent):
    look = lent._lately_used_wire

    def looked():
        assert look() is None

    return looked


# -- a first try ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooled", [False, True])
def test_a_try_is_a_transaction_of_its_own(world, make_world, pgbouncer_url, pooled):
    """What follows is another one: it fails alone, and what was tried stays."""
    tried = make_world(pgbouncer_url) if pooled else world

    def steps(table):
        first = yield Try(Query("SELECT pg_current_xact_id()::text, count(*) FROM " + table))
        second = yield Query("SELECT pg_current_xact_id()::text, count(*) FROM " + table)
        yield Last(Command(f"INSERT INTO {table} VALUES (1), (1)"))
        return first, second

    def only(table):
        return (yield Try(Query(f"INSERT INTO {table} VALUES (1) RETURNING number")))

    with world.table() as table:
        assert tried.engine.run(of_steps(only(table))) == [(1,)]
        with pytest.raises(StoreError):
            tried.engine.run(of_steps(steps(table)))
        assert world.ask(f"SELECT count(*) FROM {table}") == [(1,)]


async def test_a_verb_that_ends_with_its_try_rings(world):
    """After its commit, as any other."""

    def steps():
        yield Try(Query("SELECT 1"))

    listener = world.bell.listen(Tone.WORK)
    try:
        assert await listener.wait(LONG)
        await world.engine.arun(of_steps(steps(), wakes=True))
        assert await listener.wait(LONG)
    finally:
        listener.close()
