"""The engine runs a verb as one transaction, in bounded time, and survives what happens to its connections."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from pg_world import LONG, World, of_steps, query

from servers.pgbouncer import PgBouncer
from standfast.errors import KeyTakenError, StoreError, StoreUnavailableError, ValueNotStoredError
from standfast.stores.postgres import connect
from standfast.stores.postgres.engine import THREADS
from standfast.stores.postgres.url import POOL_SIZE
from standfast.stores.postgres.wire import prepared
from standfast.stores.verb import Access, Bulk, Command, Last, Query, Script, Together

ID = "018f0000-0000-7000-8000-000000000000"
SECRET = "what nobody is to see"
TYPES = [
    ("bigint", 2**63 - 1),
    ("bigint", -(2**63)),
    ("integer", 7),
    ("boolean", True),
    ("boolean", False),
    ("double precision", 0.1),
    ("text", 'quotes " and \\ and { and ü and 中'),
    ("text", ""),
    ("bytea", bytes(range(256))),
    ("bigint[]", [1, None, 2**62]),
    ("boolean[]", [True, None, False]),
    ("double precision[]", [0.1, float("inf")]),
    ("text[]", ["a", None, 'b"\\{},', "", "NULL"]),
    ("text[]", []),
    ("bytea[]", [b"\0\xff", None, b""]),
    ("bytea[]", []),
    ("uuid[]", []),
]


@pytest.mark.parametrize(("kind", "value"), TYPES)
def test_values_come_back_as_they_were(world, kind, value):
    """Every type that statements use keeps its values exactly, and NULL too."""
    assert world.ask(f"SELECT $1::{kind}", value) == [(value,)]
    assert world.ask(f"SELECT $1::{kind}", None) == [(None,)]


def test_ids_travel_as_text(world):
    """A uuid is written and read as the text that ids are."""
    assert world.ask("SELECT $1::uuid::text, $2::uuid[]::text[]", ID, [ID, None]) == [(ID, [ID, None])]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", 2**63),
        ("bigint[]", [2**63]),
        ("text", "\ud800"),
        ("text[]", ["\ud800"]),
        ("text", "a\0b"),
        ("uuid", "none"),
        ("uuid[]", [ID, "none"]),
        ("uuid[]", [ID, ID[:-2], ID + "00"]),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused(world, kind, value):
    """It is an error that says so, and the next call is not troubled by it."""
    with pytest.raises(ValueNotStoredError):
        world.ask(f"SELECT $1::{kind}", value)
    assert world.ask("SELECT 1") == [(1,)]


def test_every_kind_of_statement_has_its_answer(world):
    """Rows for a query, a count for a command and for many rows, a list for those sent together."""

    def steps(table):
        written = yield Bulk(f"INSERT INTO {table} VALUES ($1::bigint, $2::text)", [(n, str(n)) for n in range(5)])
        changed = yield Command(f"UPDATE {table} SET word = 'x' WHERE number > $1::bigint", (2,))
        both = yield Together(
            [Query(f"SELECT number FROM {table} WHERE word = 'x' ORDER BY 1"), Command(f"DELETE FROM {table}")]
        )
        nothing = yield Together([])
        none = yield Bulk(f"DELETE FROM {table} WHERE number = $1::bigint", [])
        rows = yield Last(Together([Query("SELECT 1"), Query("SELECT 2")]))
        return written, changed, both, nothing, none, rows

    with world.table() as table:
        answer = world.engine.run(of_steps(steps(table)))
    assert answer == (5, 2, [[(3,), (4,)], 5], [], 0, [[(1,)], [(2,)]])


@pytest.mark.parametrize("statement", [Script("claim"), None])
def test_a_statement_of_another_store_is_refused(world, statement):
    """It is said so, and nothing of the verb happened."""

    def steps():
        yield statement

    with pytest.raises(TypeError, match="another store"):
        world.engine.run(of_steps(steps()))


def test_nothing_may_follow_the_last_statement(world):
    """It is committed already: what follows would be a transaction of its own."""

    def steps():
        yield Last(Query("SELECT 1"))
        yield Query("SELECT 2")

    with pytest.raises(TypeError, match="the last"):
        world.engine.run(of_steps(steps()))


def fails_after(table, failing):
    """Write, then meet something that fails, in one of many ways."""

    def steps():
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")
        yield failing

    return of_steps(steps())


@pytest.mark.parametrize("last", [False, True])
def test_a_verb_that_fails_leaves_nothing(world, last):
    """Whether its last statement fails or one before."""
    with world.table() as table:
        duplicate = Command(f"INSERT INTO {table} VALUES (2, 'a'), (2, 'b')")
        with pytest.raises(StoreError):
            world.engine.run(fails_after(table, Last(duplicate) if last else duplicate))
        assert world.ask(f"SELECT count(*) FROM {table}") == [(0,)]


def test_what_is_sent_together_stands_or_falls_together(world):
    """A group that is a verb's only message is one transaction too."""
    with world.table() as table:
        pair = Together([Command(f"INSERT INTO {table} VALUES (1)"), Command(f"INSERT INTO {table} VALUES (1)")])

        def steps():
            yield Last(pair)

        with pytest.raises(StoreError):
            world.engine.run(of_steps(steps()))
        assert world.ask(f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_verb_that_raises_leaves_nothing(world):
    """Its own error comes out, and its connection serves on."""

    def steps(table):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")
        raise KeyTakenError("taken")

    with world.table() as table:
        before = world.ask("SELECT pg_backend_pid()")
        with pytest.raises(KeyTakenError):
            world.engine.run(of_steps(steps(table)))
        assert world.ask(f"SELECT count(*) FROM {table}") == [(0,)]
        assert world.ask("SELECT pg_backend_pid()") == before


def test_a_verb_without_a_last_statement_is_committed(world):
    """The engine cannot know which was the last, and commits when the verb returns."""

    def steps(table):
        yield Command(f"INSERT INTO {table} VALUES (1, 'one')")

    with world.table() as table:
        world.engine.run(of_steps(steps(table)))
        with world.user_connection as own:
            assert own.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_the_isolation_is_read_committed_whatever_the_role_prefers(world, make_world, postgres_url):
    """Verbs are written for it: under another a claim would miss or refuse what others do."""
    role = f"{world.address.schema}_careful"
    world.engine.prepare()
    with world.user_connection as own:
        own.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'x'")
        try:
            own.execute(f"ALTER ROLE {role} SET default_transaction_isolation = 'serializable'")
            careful = make_world(as_user(postgres_url, role, "x"))
            asked = "SELECT current_setting('transaction_isolation')"

            def steps():
                first = yield Query(asked)
                return first + (yield Last(Query(asked)))

            assert careful.ask(asked) == [("read committed",)]
            assert set(careful.engine.run(of_steps(steps()))) == {("read committed",)}
            careful.engine.close()
        finally:
            own.execute(f"DROP ROLE {role}")


def as_user(url, user, password):
    """Return the URL with another user in it."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}:{password}@{rest.partition('@')[2]}"


def test_what_is_in_a_row_is_in_no_error(world):
    """Servers quote rows in the details of their errors; a traceback shows none of it."""
    with world.table() as table:
        world.ask(f"ALTER TABLE {table} ADD CHECK (number < 10)")
        try:
            world.ask(f"INSERT INTO {table} VALUES ($1::bigint, $2::text)", 11, SECRET)
        except StoreError:
            told = traceback.format_exc()
    assert "check constraint" in told
    assert SECRET not in told


# -- many at once ------------------------------------------------------------------------------------------------


def test_beats_do_not_wait_for_busy_jobs(world):
    """However many calls of jobs hang, a beat has a thread and a connection of its own."""
    with world.closed_gate() as waits:

        async def scene():
            busy = [asyncio.create_task(world.engine.arun(query(waits))) for _ in range(THREADS + 5)]
            await asyncio.to_thread(world.wait_for_waiters, THREADS, waits)
            async with asyncio.timeout(LONG):
                beat = await world.engine.arun(query("SELECT 'beat'", access=Access.BEAT))
            world.open_gate(waits)
            await asyncio.gather(*busy)
            return beat

        assert asyncio.run(scene()) == [("beat",)]


def test_a_crowd_gets_its_answers(world):
    """More threads than connections take turns, and each gets the answer to its own question."""
    with ThreadPoolExecutor(3 * POOL_SIZE) as crowd:
        asked = list(range(300))
        answers = list(crowd.map(lambda number: world.ask("SELECT $1::bigint", number), asked))
    assert answers == [[(number,)] for number in asked]


def test_who_waits_in_vain_for_a_connection_is_told(make_world, postgres_url):
    """An exhausted pool is an error that says so, within the time given."""
    world = make_world(postgres_url)
    with world.closed_gate() as waits, ThreadPoolExecutor(POOL_SIZE) as crowd:
        busy = [crowd.submit(world.ask, waits) for _ in range(POOL_SIZE)]
        world.wait_for_waiters(POOL_SIZE, waits)
        world.engine._timeout = 0.1
        with pytest.raises(StoreUnavailableError, match=f"all {POOL_SIZE} connections of this process"):
            world.ask("SELECT 1")
        assert not any(call.done() for call in busy)
        world.open_gate(waits)


# -- what happens to connections -----------------------------------------------------------------------------------


def test_a_connection_that_was_cut_at_rest_is_replaced(world):
    """Nobody hears of it: the next call finds the line dead and takes another."""
    before = world.ask("SELECT pg_backend_pid()")
    marks = world.forgotten
    with world.user_connection as own:
        own.execute("SELECT pg_terminate_backend(%s, 10000)", before[0])
    assert world.ask("SELECT pg_backend_pid()") != before
    assert world.forgotten > marks


def test_a_connection_that_is_cut_in_use_is_an_error_to_try_again_after(world):
    """What became of the call is not known; the marks of claims are forgotten, and the next call works."""
    with world.closed_gate() as waits, ThreadPoolExecutor(1) as other:
        marks = world.forgotten
        hanging = other.submit(world.ask, waits, again=None)
        world.wait_for_waiters(1, waits)
        with world.user_connection as own:
            own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = %s", (waits,))
        with pytest.raises(StoreUnavailableError):
            hanging.result(LONG)
        assert world.forgotten > marks
    assert world.ask("SELECT 1") == [(1,)]


def test_a_long_rest_is_followed_by_a_question(world, monkeypatch):
    """Whether the line is still there is asked before it is used, once it was silent for long."""
    monkeypatch.setattr(connect, "CHECK_AFTER", 0.0)
    before = world.ask("SELECT pg_backend_pid()")
    assert world.ask("SELECT pg_backend_pid()") == before


def test_connections_that_rest_too_long_are_let_go(world, monkeypatch):
    """A crowd leaves no connections behind for ever."""
    with ThreadPoolExecutor(5) as crowd:
        list(crowd.map(lambda _: world.ask("SELECT pg_sleep(0.05)"), range(5)))
    assert len(world.engine._jobs._idle) > 1
    monkeypatch.setattr(connect, "IDLE_FOR", 0.0)
    world.ask("SELECT 1")
    assert len(world.engine._jobs._idle) == 1
    monkeypatch.setattr(connect, "LAST_IDLE_FOR", 0.0)
    world.ask("SELECT 1")
    assert len(world.engine._jobs._idle) == 0


def test_connections_are_let_go_where_nobody_calls_any_more(world, monkeypatch):
    """All but one, which the next call will find; again and again."""
    monkeypatch.setattr(connect, "IDLE_FOR", 0.1)
    barrier = threading.Barrier(4)
    for _ in range(2):
        with ThreadPoolExecutor(4) as crowd:
            list(crowd.map(lambda _: world.engine.run(_meeting(barrier)), range(4)))
        give_up_at = time.monotonic() + LONG
        while len(world.engine._jobs._idle) > 1:
            assert time.monotonic() < give_up_at
            time.sleep(0.005)


def _meeting(barrier):
    """Return a verb that is under way with as many others as the barrier is for."""

    def steps():
        yield Query("SELECT 1")
        barrier.wait(LONG)

    return of_steps(steps())


@pytest.mark.parametrize("size", [1, 3])
def test_the_url_says_how_many_connections_a_process_opens(make_world, postgres_url, size):
    """However many threads and coroutines call, at most so many work at the same time; the others wait for one."""
    world = make_world(f"{postgres_url}&pool_size={size}", timeout=LONG)
    processes = []

    async def call(number):
        if number % 2:
            processes.extend(await world.engine.arun(query("SELECT pg_backend_pid(), $1::bigint", number)))
        else:
            processes.extend(await asyncio.to_thread(world.ask, "SELECT pg_backend_pid(), $1::bigint", number))

    async def scene():
        await asyncio.gather(*map(call, range(40)))

    asyncio.run(scene())
    assert sorted(number for _, number in processes) == list(range(40))
    assert len({process for process, _ in processes}) <= size


# -- a server, or a pooler before it, that forgets what was prepared -----------------------------------------------


def test_a_statement_that_the_server_forgot_is_sent_again(world):
    """As after DISCARD ALL: the call that meets it succeeds, and so do all that come after on its connection."""
    before = world.ask("SELECT pg_backend_pid()")
    world.ask("SELECT $1::bigint", 1)
    world.ask("DEALLOCATE ALL")
    for number in range(3):
        assert world.ask("SELECT $1::bigint", number, once=True) == [(number,)]
    assert world.ask("SELECT pg_backend_pid()") == before


@pytest.mark.parametrize("drives", ["thread", "loop"])
def test_a_transaction_that_meets_a_forgotten_statement_is_made_again(world, drives):
    """Whichever of its statements that is: all of it happens, and once."""
    with world.table() as table:

        def steps():
            [(number,)] = yield Query(f"SELECT count(*) FROM {table}")
            yield Command(f"INSERT INTO {table} VALUES ($1::bigint)", (number,))
            yield Last(Command(f"UPDATE {table} SET word = 'kept'"))

        for forgotten in ("SELECT 1", "DEALLOCATE ALL"):
            world.ask(forgotten)
            world.ask(f"SELECT count(*) FROM {table}")  # of what was prepared, this alone is known again
            verb = of_steps(steps(), again=steps)
            if drives == "loop":
                asyncio.run(world.engine.arun(verb))
            else:
                world.engine.run(verb)
        assert world.ask(f"SELECT number, word FROM {table} ORDER BY 1") == [(0, "kept"), (1, "kept")]


def test_a_name_that_the_server_knows_already_is_no_error(world):
    """A pooler gave this connection a session in which somebody had prepared the statement."""
    asked = "SELECT 1 + 7"
    world.ask(f'PREPARE "{prepared(asked).name.decode()}" AS {asked}')
    assert world.ask(asked) == [(8,)]


def test_a_table_that_changed_under_a_prepared_statement_is_no_error(world):
    """Its rows have another form than when it was prepared: it is prepared anew."""
    with world.table() as table:
        asked = f"SELECT * FROM {table}"
        world.ask(asked)
        world.ask(f"ALTER TABLE {table} ADD COLUMN more bigint")
        assert [world.ask(asked) for _ in range(2)] == [[], []]


def test_a_statement_has_one_name_in_every_process():
    """Where a pooler lends one session to several, no name may mean another statement there than here."""
    sql = "SELECT $1::bigint + 8"
    asked = f"from standfast.stores.postgres.wire import prepared; print(prepared({sql!r}).name.decode())"
    elsewhere = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert elsewhere.stdout.strip() == prepared(sql).name.decode() != prepared(f"{sql} ").name.decode()


def test_a_pooler_of_which_the_url_does_not_tell(make_world, shared_postgres, postgres_schema):
    """It lends its sessions to many, each of which knows only some of the statements: every call has its answer."""
    with PgBouncer(shared_postgres, ignore_startup_parameters="options", server_reset_query_always="1") as pooler:
        worlds = [make_world(pooler.url(schema=postgres_schema)) for _ in range(2)]
        for number in range(10):
            for world in worlds:
                assert world.ask("SELECT $1::bigint", number) == [(number,)]


@pytest.mark.parametrize("warm", [False, True])
def test_a_server_that_stands_still_costs_no_more_than_the_time_given(make_world, postgres_server, warm):
    """The call gives up in time, on a connection that was open and on a new one, and works once the server does."""
    server = postgres_server()
    world = make_world(server.url(), timeout=3.0)
    if warm:
        world.ask("SELECT 1")
    server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError) as told:
            world.ask("SELECT $1::text", "x" * 20_000_000)
        took = time.monotonic() - began
    finally:
        server.cont()
    assert took < 20, took
    assert server.password not in str(told.value)
    world.engine._timeout = 30.0
    assert world.ask("SELECT 1") == [(1,)]


def test_a_server_that_was_killed_is_used_again_once_it_is_back(make_world, postgres_server):
    """Whoever asks meanwhile gets a clear error; whoever asks later an answer."""
    server = postgres_server()
    world = make_world(server.url(), timeout=5.0)
    world.ask("SELECT 1")
    server.kill()
    with pytest.raises(StoreUnavailableError):
        world.ask("SELECT 1")
    server.start()
    assert world.ask("SELECT 1") == [(1,)]


def test_of_several_hosts_the_one_that_answers_is_used(make_world, postgres_server):
    """After a failover the URL still leads to a server that takes writes."""
    server = postgres_server()
    dead = postgres_server()
    dead.stop()
    hosts = f"{dead.address},{server.address}"
    world = make_world(server.url(hosts, target_session_attrs="read-write"))
    assert world.ask("SELECT inet_server_port()") == [(server.port,)]


def test_a_late_answer_is_not_taken_for_another(make_world, postgres_url):
    """A call that gave up leaves its connection behind: the next does not get its answer."""
    world = make_world(postgres_url, timeout=0.5)
    with pytest.raises(StoreUnavailableError):
        world.ask("SELECT 'late', pg_sleep(3)::text")
    assert world.ask("SELECT 'mine'") == [("mine",)]


def test_an_interrupted_call_leaves_its_connection_behind(world):
    """Ctrl-C in the middle of a call: the next does not wait for its answer, and does not get it."""
    before = world.ask("SELECT pg_backend_pid()")
    with world.closed_gate() as waits:
        interrupter = threading.Thread(target=_interrupt_when_waiting, args=(world, waits))
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            world.ask(waits)
        interrupter.join()
        assert world.ask("SELECT pg_backend_pid()") != before


def _interrupt_when_waiting(world, waits):
    world.wait_for_waiters(1, waits)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_a_closed_engine_has_nothing_open(world):
    """No session of ours is left on the server."""
    name = world.address.schema
    world.ask(f"SELECT set_config('application_name', '{name}', false)")
    world.engine.close()
    give_up_at = time.monotonic() + LONG
    with psycopg.connect(world.address.conninfo) as own:
        while own.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", (name,)).fetchone():
            assert time.monotonic() < give_up_at
            own.rollback()


def test_an_engine_that_is_forgotten_has_nothing_open(postgres_url):
    """Whoever drops a store instead of closing it does not keep its connections for ever."""
    world = World(postgres_url)
    asks = [query("SELECT pg_backend_pid()", access=access) for access in Access]

    async def scene(engine):
        return [(await engine.arun(ask))[0][0] for ask in asks]

    processes = asyncio.run(scene(world.engine))
    with world.user_connection as own:
        del world
        gc.collect()
        give_up_at = time.monotonic() + LONG
        while own.execute("SELECT FROM pg_stat_activity WHERE pid = ANY (%s)", (processes,)).fetchall():
            assert time.monotonic() < give_up_at
            time.sleep(0.005)
