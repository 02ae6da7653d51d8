"""Whatever the planner believes about the table of claims, the writes of a claim look claims up by their index."""

from contextlib import closing

import psycopg
import pytest
from pg_plans import BATCH, arguments, nodes, plan_of, prepare
from pg_underway import Crossing

from standfast.stores.postgres.statements import load_statements

FENCED = ["start", "progress", "save", "complete", "claimed_jobs", "end_for_good", "give_back"]


@pytest.fixture
def crossing(postgres_url):
    with closing(Crossing(postgres_url)) as crossing:
        yield crossing


def _as_made(_):
    """Leave the table as the migration made it."""


def _vacuumed_empty(crossing):
    crossing.own.execute(crossing.named("VACUUM (ANALYZE) {}.claim"))


def _analysed_full(crossing):
    _fill(crossing, 20_000)
    crossing.own.execute(crossing.named("VACUUM (ANALYZE) {}.claim"))


def _after_a_storm(crossing):
    """Make the table seem empty once, and let it grow to 50,000 dead rows since."""
    crossing.own.execute(crossing.named("VACUUM (ANALYZE) {}.claim"))
    _fill(crossing, 50_000)
    crossing.own.execute(crossing.named("DELETE FROM {}.claim"))


def _fill(crossing, how_many):
    insert = """
        INSERT INTO {}.claim (id, fence, worker, call, queue, priority, run_at, seq)
        SELECT gen_random_uuid(), 1, 'worker', 1, 'default', 0, 0, 1 FROM generate_series(1, %s)
    """
    crossing.own.execute(crossing.named(insert), (how_many,))


@pytest.mark.parametrize("believed", [_as_made, _vacuumed_empty, _analysed_full, _after_a_storm])
def test_claims_are_looked_up_by_id_and_in_order(crossing, believed):
    """In a plan for all lists and in one for a list of 500: list first, and for each the index on the id."""
    believed(crossing)
    found = {
        (name, mode): sorted(_accesses(plan))
        for name in FENCED
        for mode in ("force_generic_plan", "force_custom_plan")
        for plan in [plan_of(crossing, load_statements(crossing.schema)[name], mode)]
    }
    assert set(map(tuple, found.values())) == {(("Index Scan", True, "Inner"),)}, found


def test_fresh_jobs_are_found_by_their_order(crossing):
    """However full or empty the tables seem: in the short claim each look at them goes by an index."""
    for believed in ("VACUUM (ANALYZE) {}.fresh", "VACUUM (ANALYZE) {}.waiting", "VACUUM (ANALYZE) {}.job"):
        crossing.own.execute(crossing.named(believed))
    plan = plan_of(crossing, load_statements(crossing.schema)["claim_fresh"])
    looks = {
        (node["Relation Name"], node["Node Type"].replace(" Only", ""))
        for node, _ in nodes(plan)
        if node.get("Relation Name") in {"fresh", "waiting", "job"} and node["Node Type"] != "ModifyTable"
    }
    assert looks == {
        ("fresh", "Index Scan"),
        ("fresh", "Tid Scan"),
        ("waiting", "Index Scan"),
        ("job", "Index Scan"),
    }


def test_a_plan_of_a_quiet_hour_serves_in_a_storm(crossing):
    """A plan is made once and kept: it must not have been made for a table with nothing in it."""
    _vacuumed_empty(crossing)
    cursor = psycopg.RawCursor(crossing.own)
    prepare(cursor, load_statements(crossing.schema)["complete"], "force_generic_plan")
    samples = arguments(load_statements(crossing.schema)["complete"])
    cursor.execute(f"EXECUTE plan{samples}")
    _fill(crossing, 50_000)
    [[plan]] = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE plan{samples}").fetchall()
    [looks] = [
        node for node, _ in nodes(plan[0]["Plan"]) if node.get("Alias") == "claim" and "Scan" in node["Node Type"]
    ]
    pages = looks["Shared Hit Blocks"] + looks["Shared Read Blocks"]
    assert pages < 5 * BATCH, f"{pages} pages were read to look up {BATCH} claims"


def _accesses(plan):
    """Yield how each read of the claims is done, if by a condition on the index, and on which side of a join."""
    for node, side in nodes(plan):
        if node.get("Relation Name") == "claim" and node["Node Type"] != "ModifyTable":
            yield node["Node Type"], "id" in node.get("Index Cond", ""), side
