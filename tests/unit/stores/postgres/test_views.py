"""What the views of PostgreSQL promise beyond the suite: any text may be asked for, and a page is a short walk."""

from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from conformance import Harness
from standfast.errors import JobNotFoundError
from standfast.model.crash import DeathKind
from standfast.model.job import Failure, JobAction
from standfast.model.states import Move, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.postgres import views
from standfast.stores.postgres.statements import load_statements
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.postgres.views import parameters_of, walk_of
from standfast.stores.values import JobFilter
from standfast.testing import FakeClock

NO_IDS = [
    "unknown",
    "",
    "01900000-0000-7000-8000-00000000000G",
    "01900000-0000-7000-8000-00000000000A",
    "\0",
    "\ud800",
]
BEFORE = [
    "0",
    "01900000-0000-7000-8000-000000000003",
    "01900000-0000-7000-8000-000000000003 and more",
    "01900000-0000-7000-8000-00000000000",
    "01900000-0000-7000-8000-00000000000A",
    "01900000_0000",
    "01900000",
    "zebra",
    "ÿ",
    "\0",
    "\ud800",
    "",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0000-0000-0000-000000000000",
]


@pytest.fixture
def model():
    clock = FakeClock()
    with closing(MemoryBackend(clock)) as backend:
        yield Harness(backend, clock)


def listed(harness, **conditions):
    return [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter(**conditions))).jobs]


class TestAnyText:
    @pytest.mark.parametrize("text", NO_IDS)
    def test_what_is_no_id_is_no_job(self, harness, text):
        verbs = harness.verbs
        assert harness.run(verbs.get(text)) is None
        assert harness.run(verbs.situation(text)) is None
        assert harness.run(verbs.history(text)) == ()
        assert harness.run(verbs.glance([text])) == {}
        for action in JobAction:
            with pytest.raises(JobNotFoundError):
                harness.run(change_job(verbs, action, text))

    def test_pages_begin_after_any_text(self, harness, model):
        """Any text has its place between ids, as it has where ids are texts themselves."""
        for each in (harness, model):
            for _ in range(12):
                each.enqueue()
        for text in BEFORE:
            assert listed(harness, before=text) == listed(model, before=text), text

    @pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
    @pytest.mark.parametrize("where", ["queue", "task", "key", "error"])
    def test_what_the_server_cannot_have_is_not_there(self, harness, where, text):
        harness.enqueue(queue="a")
        assert listed(harness, **{where: text}) == []
        assert listed(harness, tags=("x", text)) == []
        assert listed(harness, metadata={text: "x"}) == listed(harness, metadata={"x": text}) == []

    @pytest.mark.parametrize(
        "part", ["ärger", "ÄRGER", "Straẞe", "straße", "STRASSE", "\N{KELVIN SIGN}elvin", "%", "_", "\\", ""]
    )
    def test_errors_are_found_in_any_case_of_letters(self, harness, model, part):
        """Whatever the server's locale knows of letters, a part of an error is found as the model finds it."""
        messages = ["großer ÄRGER", "Hauptstraße 1", "0 kelvin", "100 % _ \\", "İstanbul"]
        for each in (harness, model):
            for message in messages:
                placed = each.place(State.RUNNING)
                each.finish(placed.worker, placed.ref, Move.DIE, failure=Failure("E", message))
            each.enqueue()
        assert len(listed(harness, error=part)) == len(listed(model, error=part))
        assert len(listed(harness, error=part, states=(State.DEAD,))) == len(
            listed(model, error=part, states=(State.DEAD,))
        )


class TestStates:
    def test_every_choice_of_states_agrees(self, harness, model):
        """Whatever states are asked for together, with or without a queue, the page is the model's."""
        for each in (harness, model):
            for state in State:
                for queue in ("a", "b"):
                    each.place(state, queue=f"{queue}-{state}")
            suspect = each.place(State.RUNNING, queue="suspects")
            each.bury(suspect.worker, DeathKind.CRASHED, frozenset({suspect.ref}))
            assert each.job(suspect.job_id).group
        choices = [(one,) for one in State] + [(one, two) for one in State for two in State] + [tuple(State)]
        for states in choices:
            for limit in (1, 3, 50):
                assert listed(harness, states=states, limit=limit) == listed(model, states=states, limit=limit)
            assert listed(harness, states=states, queue=f"a-{states[0]}") == listed(
                model, states=states, queue=f"a-{states[0]}"
            )

    def test_old_ready_jobs_are_found_behind_new_ones(self, harness):
        """Ready jobs are found though all of the newest are not ready."""
        old = [harness.enqueue() for _ in range(5)]
        for _ in range(40):
            harness.enqueue(delay=timedelta(hours=1))
        new = [harness.enqueue() for _ in range(3)]
        ready = [*new[::-1], *old[::-1]]
        for limit in (2, 3, 4, 8, 50):
            assert listed(harness, states=(State.READY,), limit=limit) == ready[:limit]
        assert listed(harness, states=(State.READY,), limit=2, before=ready[3]) == ready[4:6]

    def test_a_page_may_be_longer_than_a_statement_gives(self, harness, monkeypatch):
        monkeypatch.setattr(views, "LONGEST_PAGE", 3)
        ids = [harness.enqueue() for _ in range(8)][::-1]
        for limit in (0, 1, 3, 4, 6, 8, 9):
            assert listed(harness, limit=limit) == ids[:limit]
            assert listed(harness, limit=limit, states=(State.READY,)) == ids[:limit]


MANY = 200_000
PAGE = 50
FEW = 5_000
"""Rows that a page may touch; to sort a table, or to join it as a whole, would touch a hundred thousand."""

FILL = """
INSERT INTO {s}.job (id, task, version, queue, priority, run_at, max_attempts, created_at, payload, key, tags)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'task', 1, 'q' || n % 5, 0, n, 5, n, 'x',
    CASE WHEN n % 10 = 0 THEN 'key' END, CASE WHEN n % 10 = 1 THEN ARRAY['tag'] END
FROM generate_series(1, {many}) AS n;
INSERT INTO {s}.tag (tag, id) SELECT unnest(tags), id FROM {s}.job;
INSERT INTO {s}.outcome
    (id, state, queue, fence, worker, run_at, finished_at, attempt, crashes, alone, cancel_requested)
SELECT id, CASE run_at % 100 WHEN 1 THEN 'dead' WHEN 2 THEN 'cancelled' ELSE 'completed' END, queue, 1, 'w', run_at,
    run_at, 1, 0, false, false
FROM {s}.job WHERE run_at <= {many} / 2;
INSERT INTO {s}.waiting (queue, priority, run_at, seq, id, task, version, blocked)
SELECT queue, priority, CASE run_at % 20 WHEN 0 THEN 1 ELSE 9000000000000000 END, seq, id, task, version,
    run_at % 20 = 1
FROM {s}.job WHERE run_at > {many} / 2;
"""


@pytest.fixture
def crowd(shared_postgres, postgres_url, postgres_schema):
    """A connection that plans as ours do, to a store with many jobs, half of them finished."""
    with closing(PostgresBackend(postgres_url)) as backend:
        backend.run(count_states(backend.verbs))
    with psycopg.connect(shared_postgres, autocommit=True) as connection:
        fill = sql.SQL(FILL).format(s=sql.Identifier(postgres_schema), many=sql.Literal(MANY))
        connection.execute(fill)
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


def rows_touched(plan):
    """Return how many rows a plan and all below it brought up."""
    own = plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]
    return own + sum(rows_touched(child) for child in plan.get("Plans", ()))


PAGES = [
    JobFilter(limit=PAGE),
    JobFilter(limit=PAGE, before=f"01900000-0000-7000-8000-{MANY // 3:012x}"),
    JobFilter(limit=PAGE, queue="q1"),
    JobFilter(limit=PAGE, queue="q1", task="task"),
    JobFilter(limit=PAGE, key="key"),
    JobFilter(limit=PAGE, tags=("tag",)),
    JobFilter(limit=PAGE, states=(State.DEAD,)),
    JobFilter(limit=PAGE, states=(State.CANCELLED,), queue="q2"),
    JobFilter(limit=PAGE, states=(State.COMPLETED,)),
    JobFilter(limit=PAGE, states=(State.COMPLETED, State.DEAD)),
    JobFilter(limit=PAGE, states=(State.SCHEDULED,)),
    JobFilter(limit=PAGE, states=(State.READY,)),
    JobFilter(limit=PAGE, states=(State.BLOCKED,)),
    JobFilter(limit=PAGE, states=(State.SCHEDULED, State.RUNNING)),
]


def plan_of(connection, schema, which):
    """Return how the server brought up a page."""
    connection.execute(f"PREPARE page AS {load_statements(schema)[walk_of(which)]}")
    given = sql.SQL(", ").join(sql.Literal(each) for each in (None, *parameters_of(which)))
    [(answer,)] = connection.execute(
        sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page ({})").format(given)
    ).fetchall()
    connection.execute("DEALLOCATE page")
    return answer[0]["Plan"]


@pytest.mark.parametrize("with_statistics", [False, True])
def test_a_page_is_a_short_walk(crowd, postgres_schema, with_statistics):
    """No page sorts or joins whole tables, whether the server has looked at them since they were filled or not."""
    if with_statistics:
        crowd.execute("ANALYZE")
    for which in PAGES:
        plan = plan_of(crowd, postgres_schema, which)
        assert plan["Actual Rows"] == PAGE, which
        assert rows_touched(plan) < FEW, which


@pytest.mark.parametrize("left", [5, 3000])
def test_few_and_many_among_those_that_wait(crowd, postgres_url, postgres_schema, left):
    """The due and the blocked are found in order, be they few or many among those that wait for their time."""
    table = sql.Identifier(postgres_schema, "waiting")
    for which in ("blocked", "NOT blocked AND run_at = 1"):
        crowd.execute(
            sql.SQL(
                "UPDATE {0} SET blocked = false, run_at = 9000000000000000"
                " WHERE id IN (SELECT id FROM {0} WHERE {1} ORDER BY id OFFSET {2})"
            ).format(table, sql.SQL(which), sql.Literal(left))
        )
    with closing(PostgresBackend(postgres_url)) as backend:
        for states, condition in {
            (State.BLOCKED,): "blocked",
            (State.READY,): "NOT blocked AND run_at = 1",
            (State.READY, State.BLOCKED): "blocked OR run_at = 1",
        }.items():
            found = backend.run(backend.verbs.list_jobs(JobFilter(states=states, limit=PAGE))).jobs
            there = sql.SQL("SELECT id::text FROM {} WHERE {} ORDER BY id DESC LIMIT {}").format(
                table, sql.SQL(condition), sql.Literal(PAGE)
            )
            assert [job.id for job in found] == [job_id for (job_id,) in crowd.execute(there)]
