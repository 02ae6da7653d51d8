"""A job enqueued inside the user's own transaction exists if and only if that transaction commits."""

import asyncio
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import ConfigurationError, Holdfast
from holdfast.errors import KeyTakenError, SchemaError, StoreError, StoreUnavailableError
from holdfast.store.sqlite import bell
from holdfast.store.sqlite.sql_files import load_statements

SHORT = 0.2
"""Seconds that a connection of these tests waits for another writer."""


def make_app(url, **settings):
    app = Holdfast(url, **settings)

    @app.task
    def pack(order: int) -> None: ...

    return app


@pytest.fixture
def shop(tmp_path):
    """Give an app whose file holds a table of the user's own."""
    app = make_app(f"sqlite:///{tmp_path}/shop.db")
    app.prepare()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as own:
        own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        own.commit()
    with app:
        yield app


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def own(path):
    with closing(sqlite3.connect(path, timeout=SHORT)) as own:
        yield own


@pytest.fixture
def other(path):
    """Give another writer, which begins and commits by its own word."""
    with closing(sqlite3.connect(path, timeout=SHORT, isolation_level=None)) as other:
        yield other


@contextmanager
def alchemy(path, **options):
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": SHORT}, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def run(work):
    """Run async code on an engine of SQLAlchemy, which belongs to one event loop."""
    return asyncio.run(work)


def jobs(app):
    return sum(app.call(app.verbs.count()).values())


def orders(path):
    with closing(sqlite3.connect(path)) as look:
        return look.execute("SELECT count(*) FROM orders").fetchone()[0]


def pack(app, connection, order=1, **options):
    return app.tasks["pack"].options(tx=connection, **options).enqueue(order=order)


async def apack(app, connection, order=1, **options):
    return await app.tasks["pack"].options(tx=connection, **options).aenqueue(order=order)


# -- sqlite3 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
@pytest.mark.parametrize("order_first", [True, False])
def test_the_user_s_commit_decides(shop, path, level, order_first):
    for ending, stored in (("rollback", 0), ("commit", 1)):
        with closing(sqlite3.connect(path, isolation_level=level)) as own:
            if order_first:
                own.execute("INSERT INTO orders DEFAULT VALUES")
            handle = pack(shop, own)
            if not order_first:
                own.execute("INSERT INTO orders DEFAULT VALUES")
            assert jobs(shop) == 0
            assert own.in_transaction
            getattr(own, ending)()
        assert (jobs(shop), orders(path)) == (stored, stored)
    assert handle.job().task == "pack"


def test_a_connection_that_closes_without_commit_leaves_no_job(shop, own):
    pack(shop, own)
    own.close()
    assert jobs(shop) == 0


def test_many_jobs_in_one_transaction(shop, own):
    bound = shop.tasks["pack"].options(tx=own)
    assert len(bound.enqueue_many([{"order": number} for number in range(1500)])) == 1500
    assert jobs(shop) == 0
    own.commit()
    assert jobs(shop) == 1500


def test_a_transaction_of_the_user_s_own_words(shop, other):
    other.execute("BEGIN")
    pack(shop, other)
    other.execute("ROLLBACK")
    assert jobs(shop) == 0
    other.execute("BEGIN IMMEDIATE")
    pack(shop, other)
    other.execute("COMMIT")
    assert jobs(shop) == 1


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(shop, own):
    pack(shop, own)
    own.execute("SAVEPOINT mine")
    pack(shop, own)
    own.execute("ROLLBACK TO mine")
    own.execute("RELEASE mine")
    own.commit()
    assert jobs(shop) == 1


def test_an_error_in_the_middle_leaves_the_transaction_usable(shop, own, path):
    pack(shop, own, key="order-1")
    own.commit()
    own.execute("INSERT INTO orders DEFAULT VALUES")
    with pytest.raises(KeyTakenError):
        pack(shop, own, key="order-1", on_conflict="raise")
    assert own.in_transaction
    pack(shop, own, key="order-2", on_conflict="raise")
    own.commit()
    assert (jobs(shop), orders(path)) == (2, 1)


def test_an_error_ends_the_transaction_that_only_the_enqueue_has_begun(shop, own, other):
    pack(shop, own, key="order-1")
    own.commit()
    with pytest.raises(KeyTakenError):
        pack(shop, own, key="order-1", on_conflict="raise")
    assert not own.in_transaction
    other.execute("BEGIN IMMEDIATE")  # nobody holds the write lock
    other.execute("ROLLBACK")


def test_of_an_enqueue_that_fails_halfway_nothing_stays(shop, own, path):
    own.execute("INSERT INTO orders DEFAULT VALUES")
    own.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON holdfast_job WHEN instr(CAST(NEW.payload AS TEXT), '13') > 0"
        " BEGIN SELECT RAISE(ABORT, 'no thirteen'); END"
    )
    with pytest.raises(StoreError, match="no thirteen"):
        shop.tasks["pack"].options(tx=own).enqueue_many([{"order": 12}] * 1500 + [{"order": 13}])
    own.execute("DROP TRIGGER refuse")
    own.commit()
    assert (jobs(shop), orders(path)) == (0, 1)


@pytest.mark.parametrize("row_factory", [sqlite3.Row, lambda _, row: {"row": row}, lambda *_: None])
@pytest.mark.parametrize("text_factory", [str, bytes, lambda raw: raw.decode().upper()])
def test_what_the_user_makes_of_rows_does_not_matter(shop, path, row_factory, text_factory):
    with closing(sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)) as own:
        own.row_factory, own.text_factory = row_factory, text_factory
        first = pack(shop, own, key="order-1", tags=["x"])
        again = pack(shop, own, key="order-1")
        own.commit()
        assert (own.row_factory, own.text_factory) == (row_factory, text_factory)
    assert (again.id, again.created) == (first.id, False)
    assert jobs(shop) == 1


def test_a_subclass_of_connection_will_do(shop, path):
    class Mine(sqlite3.Connection):
        def cursor(self, *_):
            raise AssertionError("not ours to call")

        execute = cursor

    with closing(sqlite3.connect(path, factory=Mine)) as own:
        pack(shop, own)
        own.commit()
    assert jobs(shop) == 1


def test_async_code_may_give_a_sync_connection(shop, own):
    run(apack(shop, own))
    own.rollback()
    assert jobs(shop) == 0
    run(apack(shop, own))
    own.commit()
    assert jobs(shop) == 1


def test_an_app_in_a_namespace_joins_too(path, own):
    with make_app(f"sqlite:///{path}", namespace="blue") as blue:
        pack(blue, own)
        own.commit()
        assert jobs(blue) == 1


# -- SQLAlchemy ----------------------------------------------------------------------------------------------------


def test_a_connection_of_sqlalchemy(shop, path):
    with alchemy(path) as engine, engine.connect() as own:
        own.execute(text("INSERT INTO orders DEFAULT VALUES"))
        pack(shop, own)
        own.rollback()
        assert (jobs(shop), orders(path)) == (0, 0)
        pack(shop, own)
        own.execute(text("INSERT INTO orders DEFAULT VALUES"))
        own.commit()
    assert (jobs(shop), orders(path)) == (1, 1)


def test_a_begin_block_of_sqlalchemy(shop, path):
    with alchemy(path) as engine:
        with engine.begin() as own:
            pack(shop, own)
            assert jobs(shop) == 0
        assert jobs(shop) == 1
        with suppress(ZeroDivisionError), engine.begin() as own:
            pack(shop, own)
            raise ZeroDivisionError
    assert jobs(shop) == 1


def test_sessions_of_sqlalchemy(shop, path):
    with alchemy(path) as engine:
        registry = scoped_session(sessionmaker(engine))
        for session in (Session(engine), registry):
            before = jobs(shop)
            pack(shop, session)
            session.rollback()
            assert jobs(shop) == before
            pack(shop, session)
            session.execute(text("INSERT INTO orders DEFAULT VALUES"))
            session.commit()
            assert jobs(shop) == before + 1
            session.close()


def test_a_nested_block_of_sqlalchemy_that_is_rolled_back(shop, path):
    with alchemy(path) as engine, engine.begin() as own:
        pack(shop, own)
        nested = own.begin_nested()
        pack(shop, own)
        nested.rollback()
    assert jobs(shop) == 1


def test_sqlalchemy_that_begins_by_its_own_event(shop, path):
    """As its documentation advises for savepoints: the driver begins nothing, an event does."""
    with alchemy(path) as engine:
        event.listen(engine, "connect", lambda dbapi, _: setattr(dbapi, "isolation_level", None))
        event.listen(engine, "begin", lambda own: own.exec_driver_sql("BEGIN"))
        with engine.begin() as own:
            pack(shop, own)
            assert jobs(shop) == 0
        assert jobs(shop) == 1


@pytest.mark.parametrize("kind", ["connection", "session", "scoped"])
def test_async_connections_of_sqlalchemy(shop, path, kind):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        makes = {"connection": engine.connect, "session": lambda: AsyncSession(engine), "scoped": scoped}
        async with makes[kind]() as own:
            await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
            await apack(shop, own)
            await own.rollback()
            assert (jobs(shop), orders(path)) == (0, 0)
            await apack(shop, own, key="order-1")
            again = await apack(shop, own, key="order-1")
            assert not again.created
            await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
            await own.commit()
            assert (jobs(shop), orders(path)) == (1, 1)
            bound = shop.tasks["pack"].options(tx=own)
            await bound.aenqueue_many([{"order": number} for number in range(20)])
            await own.commit()
        await engine.dispose()

    run(use())
    assert jobs(shop) == 21


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_a_sync_enqueue_refuses_an_async_connection(shop, path, kind):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() if kind == "connection" else AsyncSession(engine) as own:
            with pytest.raises(ConfigurationError, match="has to be awaited: use aenqueue"):
                pack(shop, own)
        await engine.dispose()

    run(use())


def test_a_cancelled_enqueue_leaves_nothing_in_the_transaction(shop, path):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() as own:
            await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
            for turns in range(30):
                task = asyncio.ensure_future(apack(shop, own))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
                    break
            await own.commit()
            stored = 0 if task.cancelled() else 1
        await engine.dispose()
        return stored

    stored = run(use())
    assert (jobs(shop), orders(path)) == (stored, 1)


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["shop.db", 7, object(), threading.Lock()])
def test_something_else_is_refused(shop, thing):
    with pytest.raises(
        ConfigurationError, match=r"joined through a sqlite3.Connection, or a Connection or Session"
    ):
        pack(shop, thing)
    assert jobs(shop) == 0


def test_something_else_of_sqlalchemy_is_refused(shop, path):
    with (
        alchemy(path) as engine,
        pytest.raises(ConfigurationError, match=r"not through sqlalchemy.engine.base.Engine"),
    ):
        pack(shop, engine)


def test_another_file_is_refused(shop, tmp_path, path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as own:
        own.execute("CREATE TABLE t (x)")
        with pytest.raises(ConfigurationError, match=r"leads to .*other\.db, and the jobs are in .*shop\.db"):
            pack(shop, own)
        assert own.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
        assert not own.in_transaction
    with closing(sqlite3.connect(":memory:")) as own:
        with pytest.raises(ConfigurationError, match="leads to a database in memory"):
            pack(shop, own)
        own.execute("ATTACH ? AS jobs", (str(path),))
        with pytest.raises(ConfigurationError, match="leads to a database in memory"):
            pack(shop, own)
    with alchemy(tmp_path / "third.db") as engine, engine.connect() as own:  # noqa: SIM117
        with pytest.raises(ConfigurationError, match=r"leads to .*third\.db"):
            pack(shop, own)


def test_the_same_file_by_another_name_will_do(shop, tmp_path, path):
    (tmp_path / "link.db").symlink_to(path)
    with closing(sqlite3.connect(f"file:{tmp_path}/./link.db?mode=rw", uri=True)) as own:
        pack(shop, own)
        own.commit()
    assert jobs(shop) == 1


def test_autocommit_without_a_transaction_is_refused(shop, path, other):
    with pytest.raises(ConfigurationError, match=r"autocommit mode .*: execute BEGIN IMMEDIATE"):
        pack(shop, other)
    with alchemy(path, isolation_level="AUTOCOMMIT") as engine, engine.connect() as own:  # noqa: SIM117
        with pytest.raises(ConfigurationError, match="autocommit mode"):
            pack(shop, own)
    assert jobs(shop) == 0


def test_the_memory_store_has_no_transactions(own):
    app = make_app("memory://")
    with pytest.raises(ConfigurationError, match="the memory store has no transactions"):
        pack(app, own)
    with pytest.raises(ConfigurationError, match="the memory store has no transactions"):
        run(apack(app, own))
    assert jobs(app) == 0


def test_a_closed_connection_is_refused(shop, own):
    own.close()
    with pytest.raises(ConfigurationError, match="cannot be used here: Cannot operate on a closed database"):
        pack(shop, own)


def test_a_connection_of_another_thread_is_refused(shop, own):
    caught = []

    def use():
        with pytest.raises(ConfigurationError, match="cannot be used here: SQLite objects created in a thread"):
            pack(shop, own)
        caught.append(True)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert caught


def test_a_read_only_connection_is_refused(shop, path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as own:  # noqa: SIM117
        with pytest.raises(StoreError, match="may not be written"):
            pack(shop, own)


# -- other writers -------------------------------------------------------------------------------------------------


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


# -- tables --------------------------------------------------------------------------------------------------------


def test_tables_are_made_where_no_transaction_is_open(path, own):
    with make_app(f"sqlite:///{path}") as app:
        pack(app, own)
        own.commit()
        assert jobs(app) == 1


def test_prepare_makes_the_tables_and_may_be_repeated(path, own):
    with make_app(f"sqlite:///{path}") as app:
        app.prepare()
        app.prepare()
    assert ("holdfast_job",) in own.execute("SELECT name FROM sqlite_master").fetchall()


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
    with pytest.raises(SchemaError, match="made by a newer Holdfast"):
        pack(shop, own)
    assert not own.in_transaction


# -- workers -------------------------------------------------------------------------------------------------------


def test_a_worker_hears_of_a_commit_that_nobody_rings_for(shop, own, monkeypatch):
    """The enqueue announces it; without that, the next look would come in an hour."""
    monkeypatch.setattr(bell, "LOOK_EVERY", 3600.0)

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
