"""Transactions that we begin and end on the user's own connection, as `ctx.transaction` does."""

import pytest
from pg_joining import jobs, sql

from connections import KINDS, Async, Sync, open_own
from standfast import ConfigurationError
from standfast.errors import StoreError
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob

SHARED = {
    "psycopg-block": r"inside a block of its own transaction\(\), which alone can commit",
    "asyncpg": r"inside a transaction\(\) of its own, which alone can commit",
    "asyncpg-pool": r"inside a transaction\(\) of its own, which alone can commit",
    "django": "inside an atomic block, which alone can commit",
}
"""Kinds whose open transaction belongs to a block of their own."""


class Whole:
    """The transaction on a connection, sync or async, for tests that are sync."""

    def __init__(self, shop, own):
        self._joined = shop.backend.ajoin(own.tx) if own.is_async else shop.backend.join(own.tx)
        self._own = own
        self._shop = shop

    def __getattr__(self, name):
        call = getattr(self._joined, name)
        return lambda *args: self._own.wait(call(*args)) if self._own.is_async else call(*args)

    def finish(self):
        self.enqueue()
        self.commit()

    def enqueue(self):
        self.run(self._shop.verbs.enqueue((NewJob(id=new_job_id(), task="pack", payload=b"{}"),)))


@pytest.fixture
def whole(shop, own):
    return Whole(shop, own)


@pytest.mark.parametrize(("ending", "stored"), [("commit", 1), ("rollback", 0)])
@pytest.mark.parametrize("own", KINDS, indirect=True)
def test_it_ends_as_a_whole(own, whole, counts, ending, stored):
    whole.begin()
    own.do(f"INSERT INTO {counts.table} DEFAULT VALUES")
    whole.enqueue()
    assert counts() == {"orders": 0, "jobs": 0, "fresh": 0}
    getattr(whole, ending)()
    assert counts() == {"orders": stored, "jobs": stored, "fresh": stored}


def test_the_connection_is_left_as_it_was(shop, own, whole, orders, table):
    for ending in ("commit", "rollback", "commit"):
        whole.begin()
        whole.enqueue()
        getattr(whole, ending)()
    own.begin()
    own.do(f"INSERT INTO {table} DEFAULT VALUES")
    own.rollback()
    assert (jobs(shop), orders()) == (2, 0)


def test_one_that_is_open_is_taken_over(request, own, whole, counts):
    own.begin()
    own.do(f"INSERT INTO {counts.table} DEFAULT VALUES")
    reason = SHARED.get(request.node.callspec.params["own"])
    if reason is not None:
        with pytest.raises(ConfigurationError, match=reason):
            whole.begin()
        own.commit()
        assert counts() == {"orders": 1, "jobs": 0, "fresh": 0}
        return
    whole.begin()
    whole.enqueue()
    whole.commit()
    assert counts() == {"orders": 1, "jobs": 1, "fresh": 1}


def commit_by_word(own):
    own.do("COMMIT")


def roll_back_by_word(own):
    own.do("ROLLBACK")


@pytest.mark.parametrize("end", [Sync.commit, Sync.rollback, commit_by_word, roll_back_by_word])
@pytest.mark.parametrize(
    "own", ["psycopg", "psycopg-autocommit", "sqlalchemy", "sqlalchemy-session"], indirect=True
)
def test_one_that_the_user_ends_inside_is_not_committed(own, whole, counts, end):
    whole.begin()
    own.do(f"INSERT INTO {counts.table} DEFAULT VALUES")
    end(own)
    with pytest.raises(StoreError, match="committed or rolled back inside its block"):
        whole.finish()
    whole.rollback()
    assert counts() == {"orders": 1 if "commit" in end.__name__ else 0, "jobs": 0, "fresh": 0}


@pytest.mark.parametrize("end", [Async.commit, Async.rollback])
@pytest.mark.parametrize("own", ["psycopg-async", "sqlalchemy-async", "sqlalchemy-asyncpg"], indirect=True)
def test_an_async_one_that_the_user_ends_inside_is_not_committed(own, whole, counts, end):
    test_one_that_the_user_ends_inside_is_not_committed(own, whole, counts, end)


def test_a_statement_of_the_user_s_that_failed_inside_lets_nothing_be_committed(shop, own, whole):
    whole.begin()
    whole.enqueue()
    with pytest.raises(Exception, match="division by zero"):
        own.do("SELECT 1/0")
    with pytest.raises(ConfigurationError, match="failed in this"):
        whole.commit()
    whole.rollback()
    assert jobs(shop) == 0


def test_a_constraint_that_waits_for_the_commit_is_heard(shop, plain, table, postgres_url):
    whole = Whole(shop, plain)
    sql(postgres_url, f"ALTER TABLE {table} ADD twin int UNIQUE DEFERRABLE INITIALLY DEFERRED DEFAULT 1")
    whole.begin()
    plain.do(f"INSERT INTO {table} DEFAULT VALUES")
    plain.do(f"INSERT INTO {table} DEFAULT VALUES")
    whole.enqueue()
    with pytest.raises(StoreError, match="duplicate key"):
        whole.commit()
    whole.rollback()
    assert jobs(shop) == 0


def test_django_runs_what_was_to_run_after_the_commit(shop, postgres_url):
    from django.db import transaction  # noqa: PLC0415 - it is slow to load

    ran = []
    with open_own("django", postgres_url) as own:
        for ending in ("rollback", "commit"):
            whole = Whole(shop, own)
            whole.begin()
            transaction.on_commit(lambda ending=ending: ran.append(ending))
            getattr(whole, ending)()
    assert ran == ["commit"]


def test_django_without_autocommit(shop, postgres_url, orders, table):
    with open_own("django", postgres_url) as own:
        own.tx.set_autocommit(False)
        whole = Whole(shop, own)
        for ending in ("rollback", "commit"):
            whole.begin()
            own.do(f"INSERT INTO {table} DEFAULT VALUES")
            whole.enqueue()
            getattr(whole, ending)()
        assert (jobs(shop), orders()) == (1, 1)
        own.tx.set_autocommit(True)


def test_a_read_only_one_is_refused_at_its_first_write(shop, postgres_url, orders, table):
    """One whose transactions are read-only can begin; the server refuses the first write, and that is told."""
    with open_own("psycopg", postgres_url) as own:
        own.tx.read_only = True
        whole = Whole(shop, own)
        whole.begin()
        with pytest.raises(ConfigurationError, match="read-only"):
            whole.enqueue()
        whole.rollback()
        own.tx.read_only = False
        own.do(f"INSERT INTO {table} DEFAULT VALUES")
        own.commit()
    assert (jobs(shop), orders()) == (0, 1)
