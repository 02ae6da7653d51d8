"""Handlers that write rows of their own to PostgreSQL and complete their job in one transaction: each effect once.

The same tests as on SQLite; the handlers use every kind of connection. 200 kills at full size,
`make prove NAME=ctx_transaction_postgres`; short by default.
"""

import pytest
from shopfloor import PROVE
from test_ctx_transaction import (  # noqa: F401 - the same tests, on another store
    test_a_process_that_dies_beside_the_commit,
    test_a_worker_that_stops_after_the_commit,
    test_an_exception_inside_is_retried,
    test_the_effect_happens_exactly_once_whatever_dies,
)

from connections import KINDS

pytestmark = pytest.mark.timeout(1_200 if PROVE else 300)


@pytest.fixture
def orders(postgres_orders):
    """Give the shop on PostgreSQL to the tests of this file."""
    with postgres_orders(list(KINDS)) as shop:
        yield shop
