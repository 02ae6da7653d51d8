"""`ctx.transaction`: the handler's rows and the completion of its job are committed together, or not at all."""

import asyncio
import itertools
import os
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from standfast import ArgumentsError, ConfigurationError, Context, JobStateError, LostClaimError, Snooze
from standfast.errors import ResultEncodingError, StoreError, StoreUnavailableError
from standfast.model.clock import SystemClock
from standfast.model.codec import Results
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.policy import Policy
from standfast.model.states import State
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.worker.completer import ANY_RESULT, Judge
from standfast.worker.control import Control
from standfast.worker.lease import Lease
from standfast.worker.transactions import JobTransaction

WORKER = "w1"
SHORT = 0.2


class Attempt:
    """A claimed job in a real store, and the context that its handler would have."""

    def __init__(self, backend, kind=Control):
        self.backend = backend
        self.job_id = new_job_id()
        verbs = backend.verbs
        backend.run(verbs.register(WorkerInfo(WORKER, "s", "h", 1, timedelta(seconds=15))))
        backend.run(verbs.enqueue([NewJob(self.job_id, "pay", b"{}", metadata={"user": "7"})]))
        [claim] = backend.run(verbs.claim(ClaimRequest(WORKER, call=1, limit=1))).jobs
        self.control = kind(claim, Lease(SystemClock(), 15.0, 1.0, 5.0), lambda *_: None)
        self.results_in(ANY_RESULT)
        self.ctx = Context(claim, self.control)

    def results_in(self, results):
        judge = Judge(self.control.claim, Policy(), datetime.now(UTC), Random(1), results=results)
        self.control.transaction = partial(JobTransaction, self.backend, WORKER, self.control, judge)

    @property
    def job(self):
        return self.backend.run(self.backend.verbs.get(self.job_id))

    def lose(self):
        """Let the claim become another's."""
        self.backend.run(self.backend.verbs.bury(WORKER, Death(DeathKind.CRASHED, evidence="gone")))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def backend(path):
    backend = SqliteBackend(path)
    yield backend
    backend.close()


@pytest.fixture
def attempt(backend, path):
    attempt = Attempt(backend)
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE payment (job TEXT)")
    return attempt


@pytest.fixture(params=["", "IMMEDIATE", None])
def own(path, request):
    with closing(sqlite3.connect(path, timeout=SHORT, isolation_level=request.param)) as own:
        yield own


def pay(own, attempt):
    own.execute("INSERT INTO payment VALUES (?)", (attempt.job_id,))


def payments(path):
    with closing(sqlite3.connect(path)) as look:
        return look.execute("SELECT count(*) FROM payment").fetchone()[0]


def test_rows_and_completion_are_committed_together(attempt, own, path):
    with attempt.ctx.transaction(own) as tx:
        pay(own, attempt)
        tx.result = {"paid": 7}
        assert (attempt.job.state, payments(path)) == (State.HELD, 0)
    assert not own.in_transaction
    assert (attempt.job.state, attempt.job.result, payments(path)) == (State.COMPLETED, b'{"paid":7}', 1)
    assert attempt.control.ending.result == b'{"paid":7}'


def test_a_transaction_that_is_open_is_taken_over(attempt, own, path):
    own.execute("BEGIN")
    pay(own, attempt)
    with attempt.ctx.transaction(own):
        pass
    assert (attempt.job.state, attempt.job.result, payments(path)) == (State.COMPLETED, b"null", 1)


def test_a_result_that_would_be_read_back_changed_commits_nothing(attempt, own, path):
    """Neither where it is set, nor where it was forgotten."""
    attempt.results_in(Results(int))
    with pytest.raises(ResultEncodingError, match="got `str`"), attempt.ctx.transaction(own) as tx:  # noqa: PT012
        pay(own, attempt)
        tx.result = "seven"
    with pytest.raises(ResultEncodingError, match="nothing was committed"), attempt.ctx.transaction(own):
        pay(own, attempt)
    assert (attempt.job.state, payments(path), attempt.control.ending) == (State.HELD, 0, None)
    with attempt.ctx.transaction(own) as tx:
        pay(own, attempt)
        tx.result = 7
    assert (attempt.job.state, attempt.job.result, payments(path)) == (State.COMPLETED, b"7", 1)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
def test_an_exception_rolls_back_and_goes_on(attempt, own, path, error):
    with pytest.raises(error), attempt.ctx.transaction(own):  # noqa: PT012
        pay(own, attempt)
        raise error
    assert not own.in_transaction
    assert (attempt.job.state, payments(path), attempt.control.ending) == (State.HELD, 0, None)
    assert not attempt.control.concluding


def test_a_lost_job_writes_nothing(attempt, own, path):
    """The burial is committed before the transaction begins, or waits for its end: the write lock is ours."""
    attempt.lose()
    with pytest.raises(LostClaimError, match="what the transaction wrote is undone"), attempt.ctx.transaction(own):
        pay(own, attempt)
    assert not own.in_transaction
    assert (attempt.job.state, payments(path), attempt.control.ending) == (State.READY, 0, None)


def test_nobody_takes_the_job_away_while_the_transaction_is_open(attempt, own, path):
    with attempt.ctx.transaction(own):
        pay(own, attempt)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:  # noqa: SIM117
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")


def test_a_kill_at_any_statement_leaves_both_or_neither(attempt, backend, path):
    """The process dies by `kill -9` as its first statement begins, its second, and so on through the commit."""
    for statement in itertools.count(1):
        attempt = Attempt(backend)
        if killed_at(statement, attempt, path) == 0:
            break
        with closing(sqlite3.connect(path)) as look:
            [(rows,)] = look.execute("SELECT count(*) FROM payment WHERE job = ?", (attempt.job_id,))
        assert (attempt.job.state, rows) in {(State.HELD, 0), (State.COMPLETED, 1)}, statement
    assert statement > 10
    assert (attempt.job.state, attempt.job.result) == (State.COMPLETED, b"1")


def killed_at(statement, attempt, path):
    """Run the handler in a process of its own that ends there; return which signal ended it, 0 for none."""
    pid = os.fork()
    if pid == 0:
        try:
            begun = itertools.count(1)
            own = sqlite3.connect(path)
            own.set_trace_callback(lambda _: next(begun) == statement and os.kill(os.getpid(), signal.SIGKILL))
            with attempt.ctx.transaction(own) as tx:
                pay(own, attempt)
                tx.result = 1
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def test_a_second_transaction_is_refused(attempt, own, path):
    with attempt.ctx.transaction(own):
        pay(own, attempt)
    with pytest.raises(JobStateError, match="completed by an earlier transaction"), attempt.ctx.transaction(own):
        pay(own, attempt)
    assert payments(path) == 1


def test_a_transaction_after_one_that_was_rolled_back(attempt, own, path):
    with pytest.raises(ZeroDivisionError), attempt.ctx.transaction(own):  # noqa: PT012
        pay(own, attempt)
        raise ZeroDivisionError
    with attempt.ctx.transaction(own):
        pay(own, attempt)
    assert (attempt.job.state, payments(path)) == (State.COMPLETED, 1)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_that_was_ended_inside_is_told_of(attempt, own, end):
    with pytest.raises(StoreError, match="rolled back inside its block"), attempt.ctx.transaction(own):  # noqa: PT012
        pay(own, attempt)
        own.execute(end)
        own.execute("BEGIN")
    assert not own.in_transaction
    assert (attempt.job.state, attempt.control.ending) == (State.HELD, None)


def test_a_commit_that_fails_is_rolled_back(attempt, own, path):
    own.execute("PRAGMA foreign_keys = ON")
    own.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    own.execute("CREATE TABLE b (a REFERENCES a DEFERRABLE INITIALLY DEFERRED)")
    own.commit()
    with pytest.raises(StoreError, match="FOREIGN KEY"), attempt.ctx.transaction(own):  # noqa: PT012
        pay(own, attempt)
        own.execute("INSERT INTO b VALUES (7)")
    assert not own.in_transaction
    assert (attempt.job.state, payments(path), attempt.control.ending) == (State.HELD, 0, None)


def test_a_result_that_cannot_be_stored_is_refused_where_it_is_set(attempt, own, path):
    with pytest.raises(ResultEncodingError), attempt.ctx.transaction(own) as tx:  # noqa: PT012
        pay(own, attempt)
        tx.result = object()
    with pytest.raises(ArgumentsError, match="Snooze is another outcome"), attempt.ctx.transaction(own) as tx:
        tx.result = Snooze(3)
    assert (attempt.job.state, payments(path)) == (State.HELD, 0)


def test_another_writer_is_waited_for_and_then_named(attempt, own, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked by another writer"), attempt.ctx.transaction(own):
            raise AssertionError("not reached")
    assert not own.in_transaction


def test_what_cannot_be_used_is_refused_before_anything_is_done(attempt, tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        with pytest.raises(ConfigurationError, match=r"other\.db"), attempt.ctx.transaction(other):
            raise AssertionError("not reached")
        assert not other.in_transaction
    with pytest.raises(ConfigurationError, match="joined through"), attempt.ctx.transaction("shop.db"):
        raise AssertionError("not reached")


def test_the_memory_store_has_no_transactions(own):
    attempt = Attempt(MemoryBackend())
    with pytest.raises(ConfigurationError, match="no transactions"), attempt.ctx.transaction(own):
        raise AssertionError("not reached")

    async def use():
        async with attempt.ctx.transaction(own):
            raise AssertionError("not reached")

    with pytest.raises(ConfigurationError, match="no transactions"):
        asyncio.run(use())


def test_the_fault_point_is_passed_right_after_the_commit(backend, own, path):
    class Faulty(Control):
        def fault_point(self, name):
            self.passed = name, self.ending is not None
            raise MemoryError

    attempt = Attempt(backend, Faulty)
    own.execute("CREATE TABLE payment (job TEXT)")
    with pytest.raises(MemoryError), attempt.ctx.transaction(own):
        pay(own, attempt)
    assert attempt.control.passed == ("transaction", True)
    assert (attempt.job.state, payments(path)) == (State.COMPLETED, 1)


def test_a_fault_point_does_nothing(attempt):
    attempt.ctx.fault_point("anywhere")


def test_sync_sqlalchemy(attempt, path):
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as own, attempt.ctx.transaction(own) as tx:
        own.execute(text("INSERT INTO payment VALUES (1)"))
        tx.result = 1
    assert (attempt.job.state, payments(path)) == (State.COMPLETED, 1)
    engine.dispose()


def test_a_session_of_sqlalchemy_rolls_back(attempt, path):
    engine = create_engine(f"sqlite:///{path}")
    with Session(engine) as own:
        with pytest.raises(ZeroDivisionError), attempt.ctx.transaction(own):  # noqa: PT012
            own.execute(text("INSERT INTO payment VALUES (1)"))
            raise ZeroDivisionError
        assert (attempt.job.state, payments(path)) == (State.HELD, 0)
        with attempt.ctx.transaction(own):
            own.execute(text("INSERT INTO payment VALUES (1)"))
    assert (attempt.job.state, payments(path)) == (State.COMPLETED, 1)
    engine.dispose()


def test_a_session_inside_another_one_s_transaction_is_refused(attempt, path):
    """Its commit would commit nothing, and the outcome must not be taken for stored."""
    engine = create_engine(f"sqlite:///{path}")
    with (
        engine.connect() as outer,
        Session(outer) as own,
        pytest.raises(ConfigurationError, match="bound to a connection"),
        attempt.ctx.transaction(own),
    ):
        raise AssertionError("not reached")
    engine.dispose()
    assert (attempt.job.state, payments(path), attempt.control.ending) == (State.HELD, 0, None)


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_async_code(attempt, path, kind):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() if kind == "connection" else AsyncSession(engine) as own:  # noqa: SIM117
            async with attempt.ctx.transaction(own) as tx:
                await own.execute(text("INSERT INTO payment VALUES (1)"))
                tx.result = 1
        await engine.dispose()

    asyncio.run(use())
    assert (attempt.job.state, attempt.job.result, payments(path)) == (State.COMPLETED, b"1", 1)


def test_async_code_that_raises_or_has_lost_its_job(attempt, path):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() as own:
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with attempt.ctx.transaction(own):
                    await own.execute(text("INSERT INTO payment VALUES (1)"))
                    raise ZeroDivisionError
            attempt.lose()
            with pytest.raises(LostClaimError):
                async with attempt.ctx.transaction(own):
                    await own.execute(text("INSERT INTO payment VALUES (1)"))
        await engine.dispose()

    asyncio.run(use())
    assert (attempt.job.state, payments(path)) == (State.READY, 0)


def test_async_with_refuses_a_sync_connection(attempt, path):
    async def use():
        with closing(sqlite3.connect(path)) as own, pytest.raises(ConfigurationError, match="cannot be awaited"):
            async with attempt.ctx.transaction(own):
                raise AssertionError("not reached")

    asyncio.run(use())
    assert (attempt.job.state, payments(path)) == (State.HELD, 0)


def test_with_refuses_an_async_connection(attempt, path):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() as own:
            with pytest.raises(ConfigurationError, match="async with"), attempt.ctx.transaction(own):
                raise AssertionError("not reached")
        await engine.dispose()

    asyncio.run(use())


@pytest.mark.parametrize("turns", range(0, 60, 5))
def test_a_cancellation_at_any_moment_leaves_nothing_unknown(attempt, path, turns):
    """Either it is committed and fixed, or rolled back; the connection is free in both cases."""

    async def handler(own):
        async with attempt.ctx.transaction(own):
            await own.execute(text("INSERT INTO payment VALUES (1)"))

    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() as own:
            task = asyncio.ensure_future(handler(own))
            for _ in range(turns):
                await asyncio.sleep(0.0002)
            task.cancel()
            await asyncio.wait([task])
            fixed = attempt.control.ending is not None
            assert (attempt.job.state is State.COMPLETED, payments(path)) == (fixed, int(fixed))
            assert not (await own.get_raw_connection()).driver_connection.in_transaction
            await own.execute(text("SELECT 1"))
        await engine.dispose()

    asyncio.run(use())


def test_a_cancellation_while_the_commit_is_in_flight_comes_after_it(attempt, path):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        loop, handler = asyncio.get_running_loop(), asyncio.current_task()
        event.listen(engine.sync_engine, "commit", lambda _: loop.call_soon(handler.cancel))
        async with engine.connect() as own:
            with pytest.raises(asyncio.CancelledError):
                async with attempt.ctx.transaction(own):
                    await own.execute(text("INSERT INTO payment VALUES (1)"))
            handler.uncancel()
        await engine.dispose()

    asyncio.run(use())
    assert (attempt.job.state, payments(path)) == (State.COMPLETED, 1)
    assert attempt.control.ending is not None


def test_the_context_shows_what_was_noted_about_the_job(attempt):
    assert attempt.ctx.metadata == {"user": "7"}
