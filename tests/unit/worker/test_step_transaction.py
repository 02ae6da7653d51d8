"""`ctx.step(…, tx=connection)`: the rows of a step and its memo are committed together, under the claim."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from connections.faces import for_libpq
from standfast import ConfigurationError, JobStateError, LostClaimError
from standfast.model.clock import SystemClock
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.memos import Memo
from standfast.model.policy import Policy
from standfast.model.states import State
from standfast.settings import Settings
from standfast.stores.url import open_backend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.worker.completer import Judge
from standfast.worker.control import Control
from standfast.worker.lease import Lease
from standfast.worker.transactions import JobTransaction, StepTransaction

WORKER = "w1"
MEMO = Memo("step:book", b'{"version":1,"result":7}')


class Attempt:
    """A claimed job in a real store, and the transactions of its steps."""

    def __init__(self, url):
        self.backend = open_backend(Settings(url=url))
        self.job_id = new_job_id()
        verbs = self.backend.verbs
        self.run(verbs.register(WorkerInfo(WORKER, "s", "h", 1, timedelta(seconds=15))))
        self.run(verbs.enqueue([NewJob(self.job_id, "pay", b"{}")]))
        [claim] = self.run(verbs.claim(ClaimRequest(WORKER, call=1, limit=1))).jobs
        self.control = Control(claim, Lease(SystemClock(), 15.0, 1.0, 5.0), lambda *_: None)
        judge = Judge(claim, Policy(), datetime.now(UTC), Random(1))
        self.control.judge, self.control.now = judge, SystemClock().now
        self.control.saving = partial(StepTransaction, self.backend, WORKER, self.control)
        self.control.transaction = partial(JobTransaction, self.backend, WORKER, self.control, judge)
        self.saving = self.control.saving

    def run(self, verb):
        return self.backend.run(verb)

    @property
    def memos(self):
        return self.run(self.backend.verbs.memos(self.job_id))

    @property
    def state(self):
        return self.run(self.backend.verbs.get(self.job_id)).state

    def lose(self):
        """Let the claim become another's."""
        self.run(self.backend.verbs.bury(WORKER, Death(DeathKind.CRASHED, evidence="gone")))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def attempt(url):
    attempt = Attempt(url)
    yield attempt
    attempt.backend.close()


def connect(url):
    """Return a connection to the database of the store."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=5)
    return psycopg.connect(**for_libpq(url))


@pytest.fixture
def own(attempt, url):  # noqa: ARG001 - the store is made first
    """Give a connection to the store's database, and a table of the app's own there."""
    with closing(connect(url)) as own:
        own.execute("DROP TABLE IF EXISTS booking_of_steps")
        own.execute("CREATE TABLE booking_of_steps (n INTEGER)")
        own.commit()
        yield own
        own.rollback()
        own.execute("DROP TABLE booking_of_steps")
        own.commit()


def rows(url):
    with closing(connect(url)) as look:
        return look.execute("SELECT count(*) FROM booking_of_steps").fetchone()[0]


def book(attempt, own):
    with attempt.saving(own) as transaction:
        own.execute("INSERT INTO booking_of_steps VALUES (1)")
        transaction.memo = MEMO


def test_rows_and_memo_are_committed_together_and_the_job_goes_on(attempt, own, url):
    book(attempt, own)
    assert (rows(url), attempt.memos, attempt.state) == (1, (MEMO,), State.HELD)
    assert attempt.control.ending is None


def test_an_exception_undoes_both(attempt, own, url):
    with pytest.raises(ZeroDivisionError), attempt.saving(own) as transaction:  # noqa: PT012
        own.execute("INSERT INTO booking_of_steps VALUES (1)")
        transaction.memo = MEMO
        raise ZeroDivisionError
    assert (rows(url), attempt.memos) == (0, ())


def test_a_stale_claim_writes_nothing(attempt, own, url):
    """Another worker may have the job, and do the step."""
    attempt.lose()
    with pytest.raises(LostClaimError, match="what the transaction wrote is undone"):
        book(attempt, own)
    assert (rows(url), attempt.memos) == (0, ())


def test_a_claim_that_is_known_to_be_lost_begins_nothing(attempt, own):
    attempt.control._lease.buried = True
    with pytest.raises(LostClaimError, match="end the handler"):
        book(attempt, own)


def test_no_step_comes_after_the_jobs_completion(attempt, own):
    with attempt.control.transaction(own):
        pass
    with pytest.raises(JobStateError, match="no step comes after"):
        book(attempt, own)


async def test_async_connections(attempt, own, url):
    """The same, awaited; and a sync connection is refused where an async one is needed."""
    if url.startswith("sqlite"):
        engine = create_async_engine(url.replace("sqlite://", "sqlite+aiosqlite://"))
        async with engine.connect() as theirs, attempt.saving(theirs) as transaction:
            await theirs.execute(text("INSERT INTO booking_of_steps VALUES (1)"))
            transaction.memo = MEMO
        await engine.dispose()
    else:
        theirs = await psycopg.AsyncConnection.connect(**for_libpq(url))
        async with theirs, attempt.saving(theirs) as transaction:
            await theirs.execute("INSERT INTO booking_of_steps VALUES (1)")
            transaction.memo = MEMO
    assert (rows(url), attempt.memos) == (1, (MEMO,))
    with pytest.raises(ConfigurationError):
        await attempt.saving(own).__aenter__()


@pytest.mark.parametrize("store", ["redis", "memory"])
def test_stores_without_transactions_refuse(store, request, tmp_path):
    """Before anything runs, with a word on what to do instead."""
    attempt = Attempt("memory://" if store == "memory" else request.getfixturevalue("redis_url"))
    with closing(sqlite3.connect(tmp_path / "other.db")) as own, pytest.raises(ConfigurationError) as refused:
        attempt.saving(own).__enter__()
    assert ("idempotency_key" if store == "redis" else "sqlite:///") in str(refused.value)
    attempt.backend.close()
