"""A connection that cannot share a transaction with the jobs is refused before anything is written."""

import sqlite3
import threading
from contextlib import closing

import pytest
from joining import alchemy, apack, jobs, make_app, pack, run

from standfast import ConfigurationError
from standfast.errors import StoreError


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


def test_an_async_enqueue_refuses_a_sync_connection(shop, path, own):
    """The event loop would wait for the write lock; what is no connection at all is told so."""
    refused = pytest.raises(ConfigurationError, match=r"^your \w+ cannot be awaited.*use enqueue.*aenqueue needs")
    with refused:
        run(apack(shop, own))
    with alchemy(path) as engine, engine.connect() as connection, refused:
        run(apack(shop, connection))
    with pytest.raises(ConfigurationError, match=r"joined through a sqlite3\.Connection"):
        run(apack(shop, object()))
    assert not own.in_transaction
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
