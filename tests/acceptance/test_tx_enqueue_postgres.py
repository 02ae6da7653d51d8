"""Enqueueing inside the user's own transactions on PostgreSQL, by every kind of connection.

1,000 transactions from 20 processes by each kind at full size, `make prove NAME=tx_enqueue_postgres`; short by
default, with a few of the kinds together.
"""

import pytest
from shopfloor import PATIENCE, PROVE
from test_tx_enqueue import test_rows_and_jobs_agree  # noqa: F401 - the same test, on another store

from connections import KINDS, open_own
from standfast import ConfigurationError
from standfast.model.states import State
from standfast.stores.values import JobFilter

pytestmark = pytest.mark.timeout(900)

SHORT = [["psycopg", "asyncpg", "sqlalchemy-psycopg2", "psycopg-async", "sqlalchemy-asyncpg", "django", "psycopg2"]]
ROLLED_BACK = 50 if PROVE else 10


@pytest.fixture(params=[[kind] for kind in KINDS] if PROVE else SHORT, ids="+".join)
def kinds(request):
    """Give the kinds of connection by which customers place their orders."""
    return request.param


@pytest.fixture
def orders(postgres_orders, kinds):
    """Give the shop on PostgreSQL to the tests of this file."""
    with postgres_orders(kinds) as shop:
        yield shop


def test_what_is_rolled_back_is_never_seen(orders, kinds):
    """Neither by a worker nor by anyone who looks, while the transaction is open and after."""
    orders.worker("--concurrency", "2")
    for kind in kinds:
        with open_own(kind, orders.url) as own:
            for _ in range(ROLLED_BACK):
                own.begin()
                handles = [own.enqueue(orders.tasks.ship, order="no", options={"key": "no"})]
                handles += own.enqueue(orders.tasks.ship, many=[{"order": "no"}] * 3)
                assert_unseen(orders, handles)
                own.rollback()
                assert_unseen(orders, handles)
            own.begin()
            kept = own.enqueue(orders.tasks.ship, order=kind)
            own.commit()
        assert kept.result(timeout=PATIENCE) == kind  # what came before it would have been taken before it
    assert [line["what"] for line in orders.ledger()] == kinds
    assert orders.counts() == {State.COMPLETED: len(kinds)}


def assert_unseen(orders, handles):
    verbs, finished = orders.app.verbs, orders.counts().get(State.COMPLETED, 0)
    assert sum(orders.counts().values()) == finished
    assert len(orders.app.call(verbs.list_jobs(JobFilter(limit=1_000))).jobs) == finished
    for handle in handles:
        assert orders.app.call(verbs.get(handle.id)) is None
        assert orders.app.call(verbs.history(handle.id)) == ()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_key_needs_read_committed(orders, kinds, level):
    """It says so, and the transaction goes on: without the key it can be enqueued."""
    for kind in kinds:
        with open_own(kind, orders.url) as own:
            own.begin()
            own.do(f"SET TRANSACTION ISOLATION LEVEL {level}")
            with pytest.raises(ConfigurationError, match=r"READ COMMITTED.*or enqueue the job without"):
                own.enqueue(orders.tasks.ship, order=kind, options={"key": kind})
            own.enqueue(orders.tasks.ship, order=kind)
            own.commit()
    orders.drain()
    assert orders.counts() == {State.COMPLETED: len(kinds)}
