"""Other writers, missing tables and idle workers, as an enqueue inside the user's transaction meets them."""

import asyncio
import sqlite3
from contextlib import closing, suppress

import pytest
from joining import alchemy, apack, jobs, make_app, orders, pack, run
from sqlalchemy.ext.asyncio import create_async_engine

from standfast.errors import SchemaError, StoreUnavailableError
from standfast.stores.sqlite import notify
from standfast.stores.sqlite.statements import load_statements


def test_a_transaction_that_has_read_before_another_wrote_is_told_to_begin_immediate(shop, own, other):
    own.execute("BEGIN")
    own.execute("SELECT * FROM orders").fetchall()
    other.execute("INSERT INTO orders DEFAULT VALUES")
    with pytest.raises(StoreUnavailableError, match="begin it with BEGIN IMMEDIATE"):
        pack(shop, own)
    assert own.in_transaction
    own.rollback()
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


def test_a_deferred_transaction_that_has_not_read_is_not_disturbed(shop, own, other):
    own.execute("BEGIN")
    other.execute("INSERT INTO orders DEFAULT VALUES")
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


def test_a_deferred_transaction_is_not_disturbed_by_those_who_write_between_our_statements(shop, own, path):
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as busy:
        written = []

        def write(_):
            with suppress(sqlite3.OperationalError):  # the lock is ours by then
                busy.execute("INSERT INTO orders DEFAULT VALUES")
                written.append(True)

        own.execute("BEGIN")
        own.set_trace_callback(write)
        pack(shop, own)
        own.set_trace_callback(None)
        own.commit()
    assert jobs(shop) == 1
    assert written


def test_another_writer_s_lock_is_waited_for_and_then_named(shop, own, other, path):
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked by another writer"):
        pack(shop, own)
    assert not own.in_transaction
    with alchemy(path) as engine, engine.connect() as connection:  # noqa: SIM117
        with pytest.raises(StoreUnavailableError, match="locked by another writer"):
            pack(shop, connection)
    other.execute("COMMIT")
    pack(shop, own)
    own.commit()
    assert jobs(shop) == 1


def test_the_write_lock_is_the_transaction_s_from_the_enqueue_on(shop, own, other):
    pack(shop, own)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    own.commit()


def test_tables_are_made_where_no_transaction_is_open(path, own):
    with make_app(f"sqlite:///{path}") as app:
        pack(app, own)
        own.commit()
        assert jobs(app) == 1


def test_prepare_makes_the_tables_and_may_be_repeated(path, own):
    with make_app(f"sqlite:///{path}") as app:
        app.prepare()
        app.prepare()
    assert ("standfast_job",) in own.execute("SELECT name FROM sqlite_master").fetchall()


def test_tables_are_made_from_async_code_too(path):
    async def use(app):
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.begin() as own:
            await apack(app, own)
        await engine.dispose()

    with make_app(f"sqlite:///{path}") as app:
        run(use(app))
        assert jobs(app) == 1


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"])
def test_tables_that_are_missing_inside_a_transaction(path, own, begin):
    with make_app(f"sqlite:///{path}") as app:
        own.execute(begin)
        own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        with pytest.raises(
            SchemaError, match=r"lacks tables of this release.*: call app.prepare\(\) before it begins"
        ):
            pack(app, own)
        own.commit()
        app.prepare()
        own.execute(begin)
        pack(app, own)
        own.commit()
        assert (jobs(app), orders(path)) == (1, 0)


def test_tables_of_another_release(shop, own):
    set_version = load_statements(None)["set_schema_version"]
    own.execute(set_version, (0,))
    own.commit()
    own.execute("BEGIN IMMEDIATE")
    with pytest.raises(SchemaError, match=r"call app.prepare\(\)"):
        pack(shop, own)
    own.rollback()
    own.execute(set_version, (10_000,))
    own.commit()
    with pytest.raises(SchemaError, match="made by a newer Standfast"):
        pack(shop, own)
    assert not own.in_transaction


def test_a_worker_hears_of_a_commit_that_nobody_rings_for(shop, own, monkeypatch):
    """The enqueue announces it; without that, the next look would come in an hour."""
    monkeypatch.setattr(notify, "LOOK_EVERY", 3600.0)

    async def wait():
        listener = shop.backend.bell.listen()
        try:
            waiting = asyncio.ensure_future(listener.wait(60))
            await asyncio.sleep(0)
            pack(shop, own)
            await asyncio.sleep(0.05)
            assert not waiting.done()  # nothing to claim yet
            own.commit()
            return await waiting
        finally:
            listener.close()

    assert run(wait())
