"""A job enqueued inside the user's own transaction exists if and only if that transaction commits."""

import sqlite3
from contextlib import closing

import pytest
from joining import jobs, make_app, orders, pack

from connections import at_line
from standfast.errors import KeyTakenError, StoreError
from standfast.stores.sqlite.transactions import ROLLED_BACK


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
        "CREATE TRIGGER refuse BEFORE INSERT ON standfast_job WHEN instr(CAST(NEW.payload AS TEXT), '13') > 0"
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


def test_an_app_in_a_namespace_joins_too(path, own):
    with make_app(f"sqlite:///{path}", namespace="blue") as blue:
        pack(blue, own)
        own.commit()
        assert jobs(blue) == 1


class _TimeIsUpError(Exception):
    """What a signal handler raises."""


def raise_():
    raise _TimeIsUpError


@pytest.mark.parametrize("ours", [True, False])
def test_an_enqueue_that_a_signal_handler_cuts_short_is_not_in_the_transaction(shop, path, own, ours):
    """At whichever line it raises, whether the user had begun or not: that goes on, or a note says why not."""
    placed, said, moment, is_reached = 0, set(), 0, True
    while is_reached:
        moment += 1
        if not ours:
            own.execute("INSERT INTO orders DEFAULT VALUES")
        notes = None
        with at_line(moment, raise_) as is_reached:
            try:
                pack(shop, own)
            except _TimeIsUpError as error:
                notes = getattr(error, "__notes__", [])
        said.add("enqueued" if notes is None else "".join(notes))
        placed += 0 if notes or ours else 1
        own.commit()
        assert (jobs(shop), orders(path)) == (notes is None, placed), moment
    assert said == {"", "enqueued"} | (set() if ours else {ROLLED_BACK})
