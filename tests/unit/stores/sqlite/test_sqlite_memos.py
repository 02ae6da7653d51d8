"""Memos and signals in SQLite, where a promise of the contract hangs on how they are stored."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from standfast.errors import ValueNotStoredError
from standfast.model.job import ClaimRef, Ending, NewJob, Verdict
from standfast.model.memos import FOR_EVER, SLEEPING, Memo, Save, signal_memo, signal_reason
from standfast.model.states import Move, State
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.stores.verb import Steps, Verb
from standfast.testing import FakeClock

T = TypeVar("T")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backend(backend: SqliteBackend) -> SqliteBackend:
    hire(backend)
    return backend


def hire(backend: SqliteBackend) -> None:
    backend.run(backend.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(hours=1))))


def take(backend: SqliteBackend, *job_ids: str) -> list[ClaimRef]:
    """Enqueue jobs and claim them."""
    backend.run(backend.verbs.enqueue([NewJob(job_id, "task", b"") for job_id in job_ids]))
    return [claim.ref for claim in backend.run(backend.verbs.claim(ClaimRequest("w", 1, 100))).jobs]


def cursor(ref: ClaimRef, body: bytes = b"1", number: int = 1) -> Save:
    return Save(ref, number, (Memo("cursor", body),))


def stored(path: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT job, name FROM standfast_memo ORDER BY job, name").fetchall()


def statements(backend: SqliteBackend, verb: Verb[Any]) -> int:
    """Run a verb; return how many statements that took."""
    asked: list[object] = []
    verb.steps = _listening(verb.steps, asked.append)
    backend.run(verb)
    return len(asked)


def _listening(steps: Steps[T], note: Callable[[object], None]) -> Steps[T]:
    statement = next(steps)
    try:
        while True:
            note(statement)
            statement = steps.send((yield statement))
    except StopIteration as stop:
        told: T = stop.value
        return told


def test_a_job_without_memos_pays_for_none(backend: SqliteBackend, path: Path) -> None:
    """A success is one statement; only an end that waits for a signal asks for one, in a statement more."""
    plain, slept, waits = take(backend, "plain", "slept", "waits")
    finish = backend.verbs.finish
    assert statements(backend, finish("w", [Ending(plain, Move.COMPLETE, result=b"1")])) == 1
    without = statements(backend, finish("w", [Ending(slept, Move.SNOOZE, delay=FOR_EVER, reason=SLEEPING)]))
    waiting = finish("w", [Ending(waits, Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("go"))])
    assert statements(backend, waiting) == without + 1
    assert stored(path) == []


def test_many_saves_are_two_statements(backend: SqliteBackend, path: Path) -> None:
    """What many jobs save at once costs no statement for each of them."""
    refs = take(backend, *map(str, range(50)))
    assert statements(backend, backend.verbs.save("w", [cursor(ref) for ref in refs])) == 2
    assert len(stored(path)) == 50


def test_nothing_is_left_of_a_job_that_is_forgotten(backend: SqliteBackend, path: Path, clock: FakeClock) -> None:
    """Its memos and signals go with it; the next job, which may get its place in the file, has none of them."""
    kept, gone = take(backend, "kept", "gone")
    backend.run(backend.verbs.save("w", [cursor(kept), cursor(gone)]))
    backend.run(backend.verbs.signal("gone", "go", "t1", b"1"))
    backend.run(backend.verbs.finish("w", [Ending(gone, Move.COMPLETE)]))
    clock.advance(1)
    assert backend.run(backend.verbs.forget_jobs(timedelta(), 10)) == 1
    assert stored(path) == [(1, "cursor")]
    take(backend, "next")
    assert backend.run(backend.verbs.memos("next")) == ()


def test_a_repeated_save_writes_nothing(backend: SqliteBackend, path: Path) -> None:
    """Nor does it grow the file's log: the row stays as it was."""
    (ref,) = take(backend, "job")
    backend.run(backend.verbs.save("w", [cursor(ref)]))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER told BEFORE UPDATE ON standfast_memo BEGIN SELECT raise(FAIL, 'written again'); END"
        )
    assert backend.run(backend.verbs.save("w", [cursor(ref)])) == (Verdict.ACCEPTED,)
    with pytest.raises(Exception, match="written again"):
        backend.run(backend.verbs.save("w", [cursor(ref, b"2", 2)]))


@pytest.mark.parametrize("company", [0, 1, 20])
def test_what_cannot_be_stored_spoils_its_own_call_only(backend: SqliteBackend, path: Path, company: int) -> None:
    """A name that is no text is refused with all that came in the same call, and nothing of it is left behind."""
    ref, *others = take(backend, "bad", *map(str, range(company)))
    saves = [*map(cursor, others), Save(ref, 1, (Memo("\udc80", b"1"),))]
    with pytest.raises(ValueNotStoredError):
        backend.run(backend.verbs.save("w", saves))
    assert stored(path) == []


def test_namespaces_do_not_meet(path: Path, clock: FakeClock, backend: SqliteBackend) -> None:
    """Each namespace of a file has memos of its own, and signals that wake nobody in another."""
    with closing(SqliteBackend(path, clock=clock, namespace="other")) as other:
        hire(other)
        for store in (backend, other):
            (ref,) = take(store, "same")
            store.run(store.verbs.save("w", [cursor(ref, str(store is other).encode())]))
            waits = Ending(ref, Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("go"))
            store.run(store.verbs.finish("w", [waits]))
        assert other.run(other.verbs.signal("same", "go", "t1", b"1"))
        shown = {store: store.run(store.verbs.get("same")) for store in (backend, other)}
        assert [job and job.state for job in shown.values()] == [State.SCHEDULED, State.READY]
        assert backend.run(backend.verbs.memos("same")) == (Memo("cursor", b"False"),)
        assert other.run(other.verbs.memos("same")) == (
            Memo("cursor", b"True"),
            Memo(signal_memo("go", "t1"), b"1"),
        )


@pytest.mark.parametrize("commits", [False, True])
def test_a_save_in_a_transaction_of_the_users_own(path: Path, backend: SqliteBackend, *, commits: bool) -> None:
    """It is written with what the user writes, or not at all."""
    (ref,) = take(backend, "job")
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE theirs (name)")
        own.execute("INSERT INTO theirs VALUES ('theirs')")
        assert backend.run_in(backend.verbs.save("w", [cursor(ref)]), own) == (Verdict.ACCEPTED,)
        assert backend.run(backend.verbs.memos("job")) == ()
        own.commit() if commits else own.rollback()
    assert backend.run(backend.verbs.memos("job")) == ((Memo("cursor", b"1"),) if commits else ())
