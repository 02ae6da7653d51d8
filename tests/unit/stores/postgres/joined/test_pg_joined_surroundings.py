"""What surrounds an enqueue inside the user's transaction: missing tables, odd settings, cancellations, bells."""

import asyncio
import json
import os
import re
import signal
from collections import Counter
from contextlib import suppress

import asyncpg
import psycopg
import pytest
from pg_joining import jobs, make_app, pack, sql
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.string import TextLoader
from sqlalchemy import text
from sqlalchemy.orm import Session

from connections import ASYNC, PROVE, SOME, SYNC, at_line, cancelled_at, for_asyncpg, for_libpq, open_own
from standfast import ConfigurationError
from standfast.stores.postgres.notify import sounds
from standfast.stores.verb import Tone


def test_tables_are_made_on_a_connection_of_our_own(postgres_url, own):
    """So a rollback does not take them along."""
    with make_app(postgres_url) as app:
        own.begin()
        pack(app, own)
        own.rollback()
        assert jobs(app) == 0
        own.begin()
        pack(app, own)
        own.commit()
        assert jobs(app) == 1


def test_an_app_in_a_namespace_joins_too(postgres_url, postgres_schema, plain):
    with make_app(postgres_url, namespace="blue") as blue, make_app(postgres_url) as app:
        pack(blue, plain)
        pack(app, plain)
        pack(blue, plain)
        plain.commit()
        assert (jobs(blue), jobs(app)) == (2, 1)
    assert sql(postgres_url, f'SELECT count(*) FROM "{postgres_schema}_blue".job') == [(2,)]


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row, lambda _: lambda _: None])
def test_what_the_user_makes_of_rows_does_not_matter(shop, postgres_url, row_factory):
    class Shouted(TextLoader):
        def load(self, data):
            return str(bytes(data)).upper()

    with psycopg.connect(**for_libpq(postgres_url), row_factory=row_factory) as own:
        for type_ in ("text", "int8", "uuid", "name"):
            own.adapters.register_loader(type_, Shouted)
        bound = shop.tasks["pack"].options(tx=own, key="order-1")
        first, again = bound.enqueue(order=1), bound.enqueue(order=1)
    assert (again.id, again.created) == (first.id, False)
    assert jobs(shop) == 1


async def test_what_the_user_makes_of_values_of_asyncpg_does_not_matter(shop, postgres_url):
    class Mute(asyncpg.Record):
        def __iter__(self):
            raise AssertionError("not ours to call")

    own = await asyncpg.connect(**for_asyncpg(postgres_url), record_class=Mute, statement_cache_size=0)
    await own.set_type_codec("uuid", schema="pg_catalog", encoder=str, decoder=str)
    await own.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    async with own.transaction():
        bound = shop.tasks["pack"].options(tx=own, key="order-1", tags=["x"])
        first, again = await bound.aenqueue(order=1), await bound.aenqueue(order=1)
    await own.close()
    assert (again.id, again.created) == (first.id, False)
    assert jobs(shop) == 1


async def test_a_pooler_may_stand_before_the_user_s_connection(shop, pgbouncer_url):
    """As its users have to, they prepare no statements."""
    with psycopg.connect(**for_libpq(pgbouncer_url), prepare_threshold=None) as own:
        for order in range(20):
            shop.tasks["pack"].options(tx=own, key=f"order-{order % 10}").enqueue(order=order)
            own.commit()

    own = await asyncpg.connect(**for_asyncpg(pgbouncer_url), statement_cache_size=0)
    for order in range(20):
        async with own.transaction():
            await shop.tasks["pack"].options(tx=own, key=f"order-{order}").aenqueue(order=order)
    await own.close()
    assert jobs(shop) == 20


def test_settings_of_the_user_s_session_do_not_matter(shop, plain):
    for setting in (
        "search_path = ''",
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'German'",
        "bytea_output = 'escape'",
        "default_transaction_isolation = 'serializable'",
        "extra_float_digits = -5",
    ):
        plain.do(f"SET SESSION {setting}")
    plain.do("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    handle = pack(shop, plain, key="order-1", tags=["x"])
    assert not pack(shop, plain, key="order-1").created
    plain.commit()
    assert handle.job().tags == ("x",)


def test_a_pipeline_of_the_user_s(shop, plain, orders, table):
    with plain.tx.pipeline():
        plain.do(f"INSERT INTO {table} DEFAULT VALUES")
        pack(shop, plain)
        plain.do(f"INSERT INTO {table} DEFAULT VALUES")
        pack(shop, plain, key="order-1")
        plain.commit()
    assert (jobs(shop), orders()) == (2, 2)


def test_an_inner_block_that_is_rolled_back_takes_its_jobs_along(shop, postgres_url):
    with open_own("psycopg", postgres_url) as own:
        pack(shop, own)
        with suppress(ZeroDivisionError), own.tx.transaction():
            pack(shop, own)
            raise ZeroDivisionError
        own.commit()
    with open_own("sqlalchemy", postgres_url) as own:
        pack(shop, own)
        nested = own.tx.begin_nested()
        pack(shop, own)
        nested.rollback()
        own.commit()
    with open_own("django", postgres_url) as own:
        own.begin()
        pack(shop, own)
        inner = own._transaction.atomic()
        with suppress(ZeroDivisionError), inner:
            pack(shop, own)
            raise ZeroDivisionError
        pack(shop, own)
        own.commit()
    assert jobs(shop) == 4


def test_blocks_of_sqlalchemy(shop, postgres_url):
    with open_own("sqlalchemy", postgres_url) as own:
        engine = own._engine
        with engine.begin() as tx:
            shop.tasks["pack"].options(tx=tx).enqueue(order=1)
        with Session(engine) as session, session.begin():
            session.execute(text("SELECT 1"))
            shop.tasks["pack"].options(tx=session).enqueue(order=1)
        with suppress(ZeroDivisionError), engine.begin() as tx:
            shop.tasks["pack"].options(tx=tx).enqueue(order=1)
            raise ZeroDivisionError
    assert jobs(shop) == 2


STRIDE = 1 if PROVE else 5
"""Each so manieth line is tried."""
INTERRUPTED = "roll back: a call of Standfast in this transaction was interrupted"


@pytest.mark.parametrize("options", [{}, {"key": "order-1"}])
@pytest.mark.parametrize("own", [kind for kind in SOME if kind in ASYNC], indirect=True)
def test_a_cancelled_enqueue_is_not_in_the_transaction(shop, own, options):
    """At whichever line: the transaction goes on without it, or its commit fails, as a note says."""
    bound = shop.tasks["pack"].options(tx=own.tx, **options)
    ends, stored, moment, is_reached = Counter(), 0, 0, True
    while is_reached:
        moment += STRIDE
        own.begin()
        own.do("SELECT 1")
        is_reached, notes = own.wait(cancelled_at(moment, bound.aenqueue(order=1)))
        ends["late" if notes is None else "".join(notes)] += 1
        if notes:
            with pytest.raises(Exception, match=INTERRUPTED):
                own.commit()
        if notes or notes is None:
            with suppress(Exception):  # some have rolled back already, and say so
                own.rollback()
        else:
            pack(shop, own)
            own.commit()
            stored += 1
        assert jobs(shop) == stored, moment
    assert set(ends) == {"", "its transaction cannot be committed any more: roll it back", "late"}


@pytest.mark.parametrize("kind", ["asyncpg", *(["psycopg-async", "sqlalchemy-asyncpg"] if PROVE else [])])
def test_a_cancelled_enqueue_does_not_wait_for_a_server_that_hangs(postgres_server, monkeypatch, kind):
    """It waits for an answer for a while, then the connection is closed, and with it goes the transaction."""
    monkeypatch.setattr("standfast.stores.postgres.transactions._PATIENCE", 0.2)
    url = postgres_server().url()
    with make_app(url) as app, open_own(kind, url) as own:
        app.prepare()
        for committing in (True, False):
            own.begin()
            own.enqueue(app.tasks["pack"], order=1)
            own.commit() if committing else None
        [(backend,)] = sql(url, "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'")
        os.kill(backend, signal.SIGSTOP)
        try:
            notes = own.wait(cancelled_meanwhile(app.tasks["pack"].options(tx=own.tx).aenqueue(order=2)))
        finally:
            os.kill(backend, signal.SIGCONT)
        assert re.search("could not be undone|connection is closed", "".join(notes))
        with pytest.raises(ConfigurationError, match=r"closed or lost|Please rollback\(\)"):
            own.enqueue(app.tasks["pack"], order=3)
        assert jobs(app) == 1


async def cancelled_meanwhile(call):
    """Cancel a call that waits for its answer; return the notes of its CancelledError."""
    task = asyncio.ensure_future(call)
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    return getattr(raised.value, "__notes__", [])


def test_what_a_signal_handler_raises_is_not_taken_for_a_lost_connection(shop, plain):
    """A time limit raises TimeoutError, as the system does for a connection of an async driver."""

    def ring(*_):
        raise TimeoutError("time is up")

    pack(shop, plain)
    with pytest.raises(TimeoutError, match="time is up"), at_line(30, ring):
        pack(shop, plain)


class _TimeIsUpError(Exception):
    """What a signal handler raises."""


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("options", [{}, {"key": "order-1"}])
@pytest.mark.parametrize("kind", [kind for kind in SOME if kind in SYNC])
def test_an_enqueue_that_a_signal_handler_cuts_short_is_not_in_the_transaction(shop, postgres_url, kind, options):
    """At whichever line: the transaction goes on without it, or its commit fails, or the connection is closed."""
    ends, stored, moment, is_reached = Counter(), 0, 0, True
    while is_reached:
        with open_own(kind, postgres_url) as own:
            end = None
            while is_reached and end != "closed":
                moment += STRIDE
                own.begin()
                own.do("SELECT 1")
                with suppress(_TimeIsUpError), at_line(moment, raise_) as is_reached:
                    pack(shop, own, **options)
                end = ended(shop, own) if is_reached else None
                ends[end] += 1
                stored += end == "committed"
                assert jobs(shop) == stored, moment
    assert {"committed", "refused"} < set(ends), ends


def ended(shop, own):
    """Enqueue another job and commit; return how that went."""
    try:
        pack(shop, own)
        own.commit()
    except ConfigurationError as error:
        if "closed or lost" not in str(error):
            raise
        return "closed"
    except Exception as error:
        if INTERRUPTED not in str(error):
            raise
        with suppress(Exception):  # some have rolled back already, and say so
            own.rollback()
        return "refused"
    return "committed"


def raise_():
    raise _TimeIsUpError


def heard(url, schema, act):
    """Return the tones that a listener hears by the end of an act."""
    channels = {sound.channel: tone for tone, sound in sounds(schema).items()}
    with psycopg.connect(**for_libpq(url), autocommit=True) as ear:
        for channel in channels:
            ear.execute(f'LISTEN "{channel}"')
        act()
        ear.execute("SELECT 1")
        return {channels[notice.channel] for notice in ear.notifies(timeout=0)}


def test_the_bell_rings_with_the_commit_and_not_before(shop, own, postgres_url, schema):
    shop.tasks["pack"].options(key="order-1", delay=60).enqueue(order=1)
    own.begin()
    assert heard(postgres_url, schema, lambda: pack(shop, own)) == set()
    assert heard(postgres_url, schema, own.rollback) == set()
    own.begin()
    pack(shop, own)
    assert heard(postgres_url, schema, own.commit) == {Tone.WORK}
    own.begin()
    pack(shop, own, key="order-1", on_conflict="replace")
    assert heard(postgres_url, schema, own.commit) == {Tone.WORK, Tone.RESULT}
