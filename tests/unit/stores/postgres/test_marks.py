"""Marks spare claims a walk over what was taken before, and lose no job by it."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import LiteralString
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from psycopg import sql

from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.stores.postgres.rows import Marks, note
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest, WorkerInfo

SWEEP_EVERY = 15.0
LEVEL = ("default", 0)
FAR_AHEAD = 2**40


class Shop:
    """A store with one worker, whose marks are swept by a clock that the test moves."""

    def __init__(self, url: str, schema: str) -> None:
        self.now = 0.0
        self.url, self.schema = url, schema
        self.marks = Marks(SWEEP_EVERY, lambda: self.now)
        self.backend = PostgresBackend(f"{url}&application_name={schema}")
        self.backend.verbs._marks = self.marks
        self._calls = 0
        self.backend.run(self.backend.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(seconds=15))))

    def enqueue(self, connection: object = None, queue: str = "default") -> str:
        """Enqueue a job, in the transaction of a connection if there is one."""
        job = NewJob(new_job_id(), "task", b"{}", queue=queue)
        verb = self.backend.verbs.enqueue([job])
        if connection is None:
            self.backend.run(verb)
        else:
            self.backend.run_in(verb, connection)
        return job.id

    def claim(self) -> list[str]:
        """Claim whatever is due."""
        self._calls += 1
        answer = self.backend.run(self.backend.verbs.claim(ClaimRequest("w", self._calls, 10)))
        return [job.job_id for job in answer.jobs]

    def fail_over(self, job_id: str) -> None:
        """Lose every connection, and with the server the claim of a job: the next has not heard of it."""
        with closing(self.connect()) as own:
            own.execute(_named("DELETE FROM {}.claim WHERE id = %s", self.schema), (job_id,))
            again = "INSERT INTO {0}.fresh SELECT queue, priority, xid, seq, run_at, id FROM {0}.job WHERE id = %s"
            own.execute(_named(again, self.schema), (job_id,))
            own.commit()
            ours = (
                "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name = %s"
            )
            assert own.execute(ours, (self.schema,)).fetchone() != (0,)

    def connect(self) -> psycopg.Connection:
        """Open a connection of the user's own."""
        return psycopg.connect(urlsplit(self.url)._replace(query=_without_schema(self.url)).geturl())


def _without_schema(url: str) -> str:
    fields = parse_qs(urlsplit(url).query)
    return "&".join(f"{name}={value}" for name, [value] in fields.items() if name != "schema")


@pytest.fixture
def shop(postgres_url: str, postgres_schema: str) -> Iterator[Shop]:
    shop = Shop(postgres_url, postgres_schema)
    with closing(shop.backend):
        yield shop


def test_claims_leave_marks(shop: Shop) -> None:
    """What was taken is behind a mark: otherwise the other tests here would test nothing."""
    shop.enqueue()
    shop.claim()
    assert shop.marks.begin()[LEVEL] > 0


def test_a_mark_does_not_pass_an_open_enqueue(shop: Shop) -> None:
    """A job whose transaction began first and commits last is claimed, whatever was taken meanwhile."""
    with closing(shop.connect()) as connection:
        late = shop.enqueue(connection)
        early = [shop.enqueue(), shop.enqueue()]
        assert shop.claim() == early
        connection.commit()
        assert shop.claim() == [late]


def test_an_empty_level_does_not_hide_an_open_enqueue(shop: Shop) -> None:
    """A claim that finds nothing in a level moves its mark too, and not beyond what is under way."""
    shop.enqueue()
    shop.claim()
    with closing(shop.connect()) as connection:
        late = shop.enqueue(connection)
        other = shop.enqueue(queue="other")
        assert shop.claim() == [other]
        connection.commit()
        assert shop.claim() == [late]


def test_a_mark_of_another_server_says_nothing(shop: Shop) -> None:
    """After a failover to a server that has seen fewer transactions, its jobs are claimed at once."""
    note(shop.marks.begin(), FAR_AHEAD, [(LEVEL, FAR_AHEAD)], [])
    job_id = shop.enqueue()
    assert shop.claim() == [job_id]


def test_a_mark_of_another_server_is_forgotten(shop: Shop) -> None:
    """Such a mark would come to mean something again once the new server has seen as many."""
    note(shop.marks.begin(), FAR_AHEAD, [(("other", 0), FAR_AHEAD), (LEVEL, FAR_AHEAD)], [])
    shop.claim()
    assert all(mark < FAR_AHEAD for mark in shop.marks.begin().values())


def test_after_a_failover_a_lost_claim_is_made_again(shop: Shop) -> None:
    """The new server has the job as it came, behind the mark that the claim left; a new connection forgets it."""
    lost, kept = shop.enqueue(), shop.enqueue()
    assert shop.claim() == [lost, kept]
    shop.fail_over(lost)
    assert shop.claim() == [lost]


def test_a_claim_that_began_before_says_nothing_after_it_is_forgotten() -> None:
    """What a claim learned on the old server does not reach the marks for the new one."""
    marks = Marks()
    before = marks.begin()
    marks.forget()
    note(before, 9, [(LEVEL, 9)], [])
    assert marks.begin() == {}


def test_a_sweep_finds_what_a_rolled_back_claim_left(shop: Shop) -> None:
    """A job that someone had locked was passed over; once that is undone, the next sweep brings it."""
    passed_over, taken = shop.enqueue(), shop.enqueue()
    with closing(shop.connect()) as connection:
        _lock(connection, shop.schema, passed_over)
        assert shop.claim() == [taken]
        connection.rollback()
    shop.now += SWEEP_EVERY - 1
    assert shop.claim() == []
    shop.now += 1
    assert shop.claim() == [passed_over]


def test_a_walk_that_takes_long_is_made_less_often() -> None:
    """A hundredth of the time may go into it, but it is not put off for ever; and other claims count nothing."""
    now = 0.0
    marks = Marks(SWEEP_EVERY, lambda: now)
    known, last_walk, pauses = marks.begin(), now, []
    for took in (0.25, 0.0, 60.0, 1.0):
        while (noted := marks.begin()) is known:
            marks.walked(noted)
            now += 0.25
        pauses.append(now - last_walk)
        known, last_walk = noted, now
        now += took
        marks.walked(noted)
    assert pauses == [SWEEP_EVERY, 25.0, SWEEP_EVERY, 300.0]


def test_a_new_connection_finds_it_at_once(shop: Shop) -> None:
    """Where marks are forgotten, as on a new connection, everything is walked again."""
    passed_over, taken = shop.enqueue(), shop.enqueue()
    with closing(shop.connect()) as connection:
        _lock(connection, shop.schema, passed_over)
        assert shop.claim() == [taken]
        connection.rollback()
    shop.marks.forget()
    assert shop.claim() == [passed_over]


def test_a_claim_locks_no_more_than_it_takes(shop: Shop) -> None:
    """Who asks for few leaves the rest to others: what is locked and left would be passed over."""
    first, second = shop.enqueue(), shop.enqueue()
    with closing(shop.connect()) as connection:
        shop.backend.run_in(shop.backend.verbs.claim(ClaimRequest("w", 99, 1)), connection)
        assert shop.claim() == [second]
        connection.rollback()
    shop.now += SWEEP_EVERY
    assert shop.claim() == [first]


def _lock(connection: psycopg.Connection, schema: str, job_id: str) -> None:
    query = _named("SELECT FROM {}.fresh WHERE id = %s FOR UPDATE", schema)
    assert connection.execute(query, (job_id,)).rowcount == 1


def _named(statement: LiteralString, schema: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(schema))
