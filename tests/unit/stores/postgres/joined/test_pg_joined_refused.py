"""A connection that cannot share a transaction with the jobs is refused before anything is written."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import asyncpg
import psycopg
import pytest
from pg_joining import jobs, make_app, pack, sql
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from connections import ASYNC, KINDS, SYNC, for_asyncpg, for_libpq, open_own
from connections.django import set_up_django
from standfast import ConfigurationError
from standfast.errors import StoreError, StoreUnavailableError, ValueNotStoredError
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob

AUTOCOMMIT = ["psycopg-autocommit", "psycopg-block", "asyncpg", "asyncpg-pool", "django"]


@pytest.mark.parametrize("thing", ["postgresql://", 7, object(), threading.Lock()])
def test_something_else_is_refused(shop, thing):
    with pytest.raises(
        ConfigurationError, match=r"joined through a connection of psycopg, psycopg2 or asyncpg, a Conn"
    ):
        shop.tasks["pack"].options(tx=thing).enqueue(order=1)
    with pytest.raises(
        ConfigurationError, match=r"joined through a connection of psycopg, psycopg2 or asyncpg, a Conn"
    ):
        asyncio.run(shop.tasks["pack"].options(tx=thing).aenqueue(order=1))
    assert jobs(shop) == 0


def test_connections_of_sqlite_are_refused(shop):
    with (
        closing(sqlite3.connect(":memory:")) as own,
        pytest.raises(ConfigurationError, match=r"not through sqlite3"),
    ):
        shop.tasks["pack"].options(tx=own).enqueue(order=1)
    engine = create_engine("sqlite://")
    with (
        engine.connect() as own,
        pytest.raises(ConfigurationError, match=r"^a transaction of sqlite\+pysqlite cannot be joined by a Post"),
    ):
        shop.tasks["pack"].options(tx=own).enqueue(order=1)
    engine.dispose()


def test_another_database_of_django_is_refused(shop, postgres_url):
    set_up_django(postgres_url)
    from django.db import connections  # noqa: PLC0415 - it needs the settings

    with pytest.raises(ConfigurationError, match="Django's sqlite database 'lite' cannot be joined"):
        shop.tasks["pack"].options(tx=connections["lite"]).enqueue(order=1)


def test_what_else_those_libraries_have_is_refused(shop, plain):
    engine = create_engine("postgresql+psycopg://")
    for thing, kind in ((engine, "sqlalchemy.engine.base.Engine"), (plain.tx.cursor(), "psycopg.Cursor")):
        with pytest.raises(ConfigurationError, match=f"not through {kind}"):
            shop.tasks["pack"].options(tx=thing).enqueue(order=1)
    engine.dispose()


@pytest.fixture
def other_database(postgres_url):
    sql(postgres_url, "CREATE DATABASE standfast_elsewhere")
    yield f"{postgres_url}&dbname=standfast_elsewhere"
    sql(postgres_url, "DROP DATABASE standfast_elsewhere WITH (FORCE)")


@pytest.mark.parametrize("kind", ["psycopg", "psycopg-autocommit", "asyncpg", "sqlalchemy", "sqlalchemy-asyncpg"])
def test_another_database_is_refused(shop, other_database, kind):
    with open_own(kind, other_database) as own:
        own.begin()
        own.do("CREATE TABLE mine (x int)")
        with pytest.raises(
            ConfigurationError, match=r"leads to database standfast_elsewhere, and the jobs are in schema test_"
        ):
            pack(shop, own)
        own.do("INSERT INTO mine VALUES (1)")
        own.commit()
    assert sql(other_database, "SELECT x FROM mine") == [(1,)]
    assert jobs(shop) == 0


def test_another_server_with_all_the_same_names_is_refused(shop, postgres_url, schema, postgres_server):
    """Also where its schema has our tables, as a copy of this one would."""
    url = postgres_server().url()
    there = f"{url}{'&' if '?' in url else '?'}schema={schema}"
    name = for_libpq(postgres_url)["dbname"]
    if name != for_libpq(there)["dbname"]:
        sql(there, f'CREATE DATABASE "{name}"')
        there += f"&dbname={name}"
    with make_app(there) as twin, open_own("psycopg", there) as own:
        twin.prepare()
        with pytest.raises(ConfigurationError, match=f"leads to database {name} on another server, and the jobs"):
            pack(shop, own)
        assert own.tx.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        pack(twin, own)
        own.commit()
        assert (jobs(twin), jobs(shop)) == (1, 0)


@pytest.mark.parametrize("kind", AUTOCOMMIT)
def test_autocommit_without_a_transaction_is_refused(shop, postgres_url, kind):
    with open_own(kind, postgres_url) as own:
        with pytest.raises(
            ConfigurationError, match=r"autocommit mode and no transaction is open.*begin one, as in"
        ):
            pack(shop, own)
        own.begin()
        pack(shop, own)
        own.commit()
    assert jobs(shop) == 1


def test_autocommit_of_sqlalchemy_is_refused(shop, postgres_url):
    for kind in ("sqlalchemy", "sqlalchemy-async", "sqlalchemy-asyncpg"):
        with open_own(kind, postgres_url) as own:
            options = own.tx.execution_options(isolation_level="AUTOCOMMIT")
            if own.is_async:
                own.wait(options)
            with pytest.raises(ConfigurationError, match="autocommit mode"):
                pack(shop, own)
    assert jobs(shop) == 0


@pytest.mark.parametrize("kind", ASYNC)
def test_a_sync_enqueue_refuses_an_async_connection(shop, postgres_url, kind):
    with (
        open_own(kind, postgres_url) as own,
        pytest.raises(ConfigurationError, match=r"^your \w+ has to be awaited: use aenqueue"),
    ):
        shop.tasks["pack"].options(tx=own.tx).enqueue(order=1)


@pytest.mark.parametrize("kind", SYNC)
def test_an_async_enqueue_refuses_a_sync_connection(shop, postgres_url, kind):
    with (
        open_own(kind, postgres_url) as own,
        pytest.raises(ConfigurationError, match=r"^your \w+ cannot be awaited.*use enqueue.*aenqueue needs"),
    ):
        asyncio.run(shop.tasks["pack"].options(tx=own.tx).aenqueue(order=1))


def test_django_s_connection_is_refused_on_the_event_loop(shop, postgres_url):
    """Django itself refuses that; what it says is passed on."""

    async def use(own):
        with pytest.raises(
            ConfigurationError, match="cannot be used here: You cannot call this from an async context"
        ):
            own.enqueue(shop.tasks["pack"], order=1)

    with open_own("django", postgres_url) as own:
        own.tx.close()
        asyncio.run(use(own))


@pytest.mark.parametrize("kind", ["psycopg", "psycopg-async", "asyncpg"])
def test_a_closed_connection_is_refused(shop, postgres_url, kind):
    with open_own(kind, postgres_url) as own:
        closed = own.tx.close()
        if own.is_async:
            own.wait(closed)
        with pytest.raises(ConfigurationError, match="this connection is closed or lost"):
            pack(shop, own)


def test_a_closed_connection_of_sqlalchemy_is_refused(shop, postgres_url):
    with open_own("sqlalchemy", postgres_url) as own:
        own.tx.close()
        with pytest.raises(ConfigurationError, match="cannot be used here: This Connection is closed"):
            pack(shop, own)


async def test_a_connection_that_is_back_in_its_pool_is_refused(shop, postgres_url):
    async with asyncpg.create_pool(**for_asyncpg(postgres_url), min_size=1, max_size=1) as pool:
        async with pool.acquire() as own:
            pass
        with pytest.raises(ConfigurationError, match="this connection is closed or lost"):
            await shop.tasks["pack"].options(tx=own).aenqueue(order=1)


@pytest.mark.parametrize("own", KINDS, indirect=True)
def test_a_transaction_that_has_failed_is_refused(shop, own):
    own.begin()
    with pytest.raises(Exception, match="division by zero"):
        own.do("SELECT 1/0")
    with pytest.raises(ConfigurationError, match=r"failed in this (transaction|atomic block), which") as caught:
        pack(shop, own)
    assert not getattr(caught.value.__cause__, "__notes__", [])
    own.rollback()
    own.begin()
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


def test_a_read_only_transaction_is_refused(shop, own):
    own.begin()
    own.do("SET TRANSACTION READ ONLY")
    with pytest.raises(ConfigurationError, match=r"this transaction is read-only"):
        pack(shop, own)
    own.do("SELECT 1")
    own.commit()
    assert jobs(shop) == 0


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_key_needs_read_committed(shop, own, level):
    own.begin()
    own.do(f"SET TRANSACTION ISOLATION LEVEL {level}")
    with pytest.raises(ConfigurationError, match=r"a job with a key needs a READ COMMITTED transaction"):
        pack(shop, own, key="order-1")
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


@pytest.mark.parametrize(
    "kind", ["psycopg", "psycopg-async", "asyncpg", "sqlalchemy", "sqlalchemy-asyncpg", "django"]
)
def test_a_connection_that_the_server_has_ended(shop, postgres_url, kind):
    with open_own(kind, postgres_url) as own:
        own.begin()
        pack(shop, own)
        others = (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        )
        assert sql(postgres_url, f"{others} AND query ~ 'standfast_verb'") == [(True,)]
        with pytest.raises((StoreUnavailableError, ConfigurationError), match=r"lost|cannot be used now|closed"):
            pack(shop, own)
        if kind == "django":
            own.rollback()
    assert jobs(shop) == 0


def test_a_user_without_rights_is_told_to_grant_them(shop, schema, plain):
    role = f"{schema}_guest"
    plain.do(f'CREATE ROLE "{role}"')
    plain.do(f'SET LOCAL ROLE "{role}"')
    with pytest.raises(StoreError, match=f'GRANT USAGE ON SCHEMA "{schema}"'):
        pack(shop, plain)
    plain.do("RESET ROLE")
    plain.do(f'GRANT USAGE ON SCHEMA "{schema}" TO "{role}"')
    for things in ("TABLES", "SEQUENCES"):
        plain.do(f'GRANT ALL ON ALL {things} IN SCHEMA "{schema}" TO "{role}"')
    plain.do(f'SET LOCAL ROLE "{role}"')
    assert pack(shop, plain, key="order-1", tags=["x"]).created
    plain.rollback()
    assert jobs(shop) == 0


@pytest.mark.parametrize("odd", ["\0", "\udce9"])
def test_a_value_that_cannot_be_stored_is_not_repeated(shop, own, odd):
    own.begin()
    job = NewJob(id=new_job_id(), task="pack", payload=b"{}", key=f"48151623{odd}")
    verb = shop.verbs.enqueue((job,))
    with pytest.raises(ValueNotStoredError) as caught:
        own.run_verb(shop.backend, verb)
    assert "48151623" not in str(caught.value)
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


def test_a_session_on_a_connection_is_refused_where_it_would_have_to_commit(shop, postgres_url):
    with open_own("sqlalchemy", postgres_url) as own, Session(own.tx) as session:
        with pytest.raises(ConfigurationError, match="this session is bound to a connection"):
            shop.backend.join(session).begin()
        shop.tasks["pack"].options(tx=session).enqueue(order=1)
        own.commit()
    assert jobs(shop) == 1
