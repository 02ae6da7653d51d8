"""However many fires there are: who looks for a few, or forgets a few, walks an index to them."""

from contextlib import closing

import pytest
from pg_plans import nodes, plan_of
from pg_underway import Crossing

from standfast.stores.postgres.statements import load_statements

OFTEN = {"due_records": {"record_due"}, "next_record_due": {"record_due"}, "change_records": {"record_pkey"}}
SELDOM = {
    "fires": {"fire_time"},
    "fires_of": {"fire_pkey"},
    "forget_old_fires": {"fire_pkey"},
    "forget_fires": {"fire_pkey", "record_pkey"},
    "records_named": {"record_pkey"},
}
"""By which indexes statements find records and fires."""


@pytest.fixture
def crossing(postgres_url):
    with closing(Crossing(postgres_url)) as crossing:
        yield crossing


def _as_made(_):
    """Leave the tables as the migration made them."""


def _full(crossing):
    crossing.own.execute(
        crossing.named("""
            INSERT INTO {}.record SELECT 'schedule', n::text, 1, n, 'token', repeat('-', 300)::bytea
            FROM generate_series(1, 2000) AS n
        """)
    )
    crossing.own.execute(
        crossing.named("""
            INSERT INTO {}.fire SELECT n::text, m, 'rule', 'fired', 1, NULL, gen_random_uuid()::text, NULL, m
            FROM generate_series(1, 200) AS n, generate_series(1, 500) AS m
        """)
    )


def _full_and_analysed(crossing):
    _full(crossing)
    for table in ("record", "fire"):
        crossing.own.execute(crossing.named(f"VACUUM (ANALYZE) {{}}.{table}"))


@pytest.mark.parametrize(
    ("believed", "statements"), [(_as_made, OFTEN), (_full, OFTEN | SELDOM), (_full_and_analysed, OFTEN | SELDOM)]
)
def test_records_and_fires_are_found_by_their_indexes(crossing, believed, statements):
    """No table is walked that may be large; rows that are to go are taken by their place."""
    believed(crossing)
    for name, indexes in statements.items():
        plan = plan_of(crossing, load_statements(crossing.schema)[name])
        steps = [node for node, _ in nodes(plan)]
        assert {node["Index Name"] for node in steps if "Index Name" in node} == indexes, (name, plan)
        assert not [node for node in steps if node["Node Type"] == "Seq Scan"], (name, plan)
