"""Looks at queues pass over what is dead, once, and never over a job."""

from contextlib import closing
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
import pytest
from psycopg import sql

from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.postgres.statements import load_statements
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest, WorkerInfo

LEVEL = ("default", 0)
STORM = 5_000


class Shop:
    """A store with one worker."""

    def __init__(self, url, schema):
        self.url, self.schema = url, schema
        self.backend = PostgresBackend(url)
        self.verbs = self.backend.verbs
        self._calls = 0
        self.backend.run(self.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(seconds=15))))

    def enqueue(self, connection=None, many=1):
        """Enqueue jobs, in the transaction of a connection if there is one."""
        jobs = [NewJob(new_job_id(), "task", b"{}") for _ in range(many)]
        verb = self.verbs.enqueue(jobs)
        if connection is None:
            self.backend.run(verb)
        else:
            self.backend.run_in(verb, connection)
        return jobs[0].id

    def claim(self, many=10):
        """Claim whatever is due."""
        self._calls += 1
        return self.backend.run(self.verbs.claim(ClaimRequest("w", self._calls, many))).jobs

    def look(self):
        """Return how many jobs are ready, as all looks agree, and whether one is seen to be due."""
        due = {age.name for age in self.backend.run(self.verbs.queue_ages()).queues}
        by_queue = {each.name: each.states.get(State.READY, 0) for each in self.backend.run(self.verbs.queues())}
        ready = self.backend.run(count_states(self.verbs))[State.READY]
        assert ready == sum(by_queue.values())
        return ready, "default" in due

    @property
    def marks(self):
        return self.verbs._marks_of_looks.noted

    def connect(self):
        """Open a connection of the user's own."""
        query = [(name, value) for name, value in parse_qsl(urlsplit(self.url).query) if name != "schema"]
        return psycopg.connect(urlsplit(self.url)._replace(query=urlencode(query)).geturl())


@pytest.fixture
def shop(postgres_url, postgres_schema):
    opened = Shop(postgres_url, postgres_schema)
    with closing(opened.backend):
        yield opened


def test_looks_leave_marks_behind_what_was_taken(shop):
    """The mark follows the jobs: otherwise the other tests here would test nothing."""
    shop.enqueue()
    assert shop.look() == (1, True)
    first = shop.marks[LEVEL]
    shop.claim()
    assert shop.look() == (0, False)
    assert shop.marks[LEVEL] > first
    shop.enqueue()
    assert shop.look() == (1, True)


def test_a_mark_does_not_pass_an_open_enqueue(shop):
    """A job whose transaction began first and commits last is seen, whatever was seen meanwhile."""
    with closing(shop.connect()) as connection:
        shop.enqueue(connection)
        shop.enqueue()
        shop.claim()
        assert shop.look() == (0, False)
        connection.commit()
        assert shop.look() == (1, True)


def test_a_first_job_does_not_hide_an_open_enqueue(shop):
    """A mark stays before the oldest transaction that may still write, though the first job seen is behind it."""
    with closing(shop.connect()) as connection:
        shop.enqueue(connection)
        shop.enqueue()
        assert shop.look() == (1, True)
        connection.commit()
        assert shop.look() == (2, True)


def test_a_mark_does_not_pass_what_an_open_claim_may_give_back(shop):
    """Until a claim commits its jobs are seen as ready, and so they are if it does not."""
    shop.enqueue()
    with closing(shop.connect()) as connection:
        shop.backend.run_in(shop.verbs.claim(ClaimRequest("w", 99, 1)), connection)
        assert shop.look() == (1, True)
        connection.rollback()
    assert shop.look() == (1, True)


def test_a_transaction_that_has_written_leaves_no_mark(shop):
    """What it took itself it may give back: a look within it says nothing about others."""
    shop.enqueue()
    with closing(shop.connect()) as connection:
        shop.backend.run_in(shop.verbs.claim(ClaimRequest("w", 99, 1)), connection)
        assert shop.backend.run_in(shop.verbs.queue_ages(), connection).queues == ()
        connection.rollback()
    assert shop.look() == (1, True)


def test_a_lost_server_takes_its_marks_along(shop):
    """After an error another server may answer, on which more or less has happened."""
    shop.enqueue()
    shop.look()
    assert shop.marks
    shop.verbs.forget_server()
    assert not shop.marks


@pytest.mark.parametrize("left", [0, 1, 10])
def test_after_a_storm_claims_are_counted_along_their_index(shop, left):
    """However few are left of many: no walk of all pages of the table, and none that keeps what is dead."""
    shop.enqueue(many=STORM)
    assert len(shop.claim(STORM)) == STORM
    with closing(shop.connect()) as connection:
        connection.autocommit = True
        table = sql.Identifier(shop.schema, "claim")
        kept = sql.SQL("DELETE FROM {0} WHERE id NOT IN (SELECT id FROM {0} LIMIT {1})")
        connection.execute(kept.format(table, sql.Literal(left)))
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(table))
        connection.execute("SET plan_cache_mode = force_generic_plan")
        for name, given in {"workers": "(NULL)", "queue_states": "(NULL, '{}')"}.items():
            connection.execute(f"PREPARE look AS {load_statements(shop.schema)[name]}")
            [(answer,)] = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE look {given}").fetchall()
            connection.execute("DEALLOCATE look")
            ways = [step["Node Type"] for step in _steps(answer[0]["Plan"]) if step.get("Relation Name") == "claim"]
            assert ways == ["Index Scan"], name


def _steps(plan):
    yield plan
    for part in plan.get("Plans", ()):
        yield from _steps(part)
