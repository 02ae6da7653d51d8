"""How the server would run a statement of ours: what tests ask about plans."""

import re

import psycopg

SAMPLES = {
    "uuid": "01900000-0000-7000-8000-000000000001",
    "bigint": "1",
    "integer": "1",
    "text": "word",
    "bytea": "NULL",
    "boolean": "t",
    "double precision": "0.5",
}
BATCH = 500


def plan_of(crossing, statement, mode="force_generic_plan"):
    """Return the plan of a statement, by default the one for all parameters, which the store's connections use."""
    cursor = psycopg.RawCursor(crossing.own)
    prepare(cursor, statement, mode)
    [[plan]] = cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE plan{arguments(statement)}").fetchall()
    return plan[0]["Plan"]


def prepare(cursor, statement, mode):
    """Prepare a statement as `plan`."""
    cursor.execute("DEALLOCATE ALL")
    cursor.execute(f"SET plan_cache_mode = {mode}")
    cursor.execute(f"PREPARE plan AS {statement}")


def arguments(statement):
    """Return samples of its parameters, lists being long."""
    types = dict(re.findall(r"\$(\d+)::((?:double precision|\w+)(?:\[\])?)", statement))
    samples = ", ".join(_argument(types[str(number)]) for number in range(1, len(types) + 1))
    return f" ({samples})" if samples else ""


def _argument(kind):
    if kind.endswith("[]"):
        return f"'{{{','.join([SAMPLES[kind[:-2]]] * BATCH)}}}'"
    return "NULL" if kind == "bytea" else f"'{SAMPLES[kind]}'"


def nodes(plan, side=None):
    """Yield every step of a plan, and on which side of the step above it stands."""
    yield plan, side
    for part in plan.get("Plans", ()):
        yield from nodes(part, part.get("Parent Relationship"))
