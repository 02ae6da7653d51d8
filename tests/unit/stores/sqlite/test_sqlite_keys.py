"""Keys, tags and results in SQLite, where a promise of the contract hangs on how they are stored."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast.model.job import Claim, Ending, Failure, NewJob, OnConflict
from standfast.model.states import Move, Reason, State
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, JobFilter, WorkerInfo
from standfast.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backend(backend: SqliteBackend) -> SqliteBackend:
    backend.run(backend.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(hours=1))))
    return backend


def enqueue(backend: SqliteBackend, job_id: str, **fields: Any) -> None:
    assert backend.run(backend.verbs.enqueue([NewJob(job_id, "task", b"", **fields)])).keys() <= {job_id}


def claim(backend: SqliteBackend, call: int = 1) -> tuple[Claim, ...]:
    return backend.run(backend.verbs.claim(ClaimRequest("w", call, 100))).jobs


def rows(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_only_an_end_that_frees_a_job_wakes_workers(backend: SqliteBackend) -> None:
    """A completion for which a replacement waits rings for work; one for which nobody waits does not."""
    enqueue(backend, "old", key="k")
    enqueue(backend, "alone")
    old, alone = claim(backend)
    enqueue(backend, "new", key="k", on_conflict=OnConflict.REPLACE)
    for ending, wakes in ((alone, False), (old, True)):
        finish = backend.verbs.finish("w", [Ending(ending.ref, Move.COMPLETE)])
        backend.run(finish)
        assert finish.wakes is wakes
    assert [job.job_id for job in claim(backend, 2)] == ["new"]


def test_plain_jobs_and_their_ends_leave_nothing_beside_their_row(backend: SqliteBackend, path: Path) -> None:
    """Keys, tags and results with a time have tables of their own; a job without any of these pays for none."""
    enqueue(backend, "plain")
    (job,) = claim(backend)
    backend.run(backend.verbs.finish("w", [Ending(job.ref, Move.COMPLETE, result=b"1")]))
    tables = ("standfast_key", "standfast_tag", "standfast_fading", "standfast_attempt")
    assert [rows(path, table) for table in tables] == [[], [], [], []]


def test_a_sweep_leaves_no_list_behind(backend: SqliteBackend, path: Path, clock: FakeClock) -> None:
    """What was forgotten is not looked at again, even if its finish, whose reply was lost, is repeated later."""
    enqueue(backend, "a")
    (job,) = claim(backend)
    endings = [Ending(job.ref, Move.COMPLETE, result=b"1", keep_result=timedelta(seconds=5))]
    for _ in range(2):
        backend.run(backend.verbs.finish("w", endings))
        assert len(rows(path, "standfast_fading")) == 1
    clock.advance(5)
    assert backend.run(backend.verbs.forget_results(10)) == 1
    backend.run(backend.verbs.finish("w", endings))
    assert rows(path, "standfast_fading") == []


def test_a_repeated_enqueue_does_not_change_tags(backend: SqliteBackend) -> None:
    """A job is found by the tags it was accepted with, not by those of a later enqueue with its id."""
    enqueue(backend, "a", tags=("first",))
    enqueue(backend, "a", tags=("second",))
    assert [
        len(backend.run(backend.verbs.list_jobs(JobFilter(tags=(tag,)))).jobs) for tag in ("first", "second")
    ] == [1, 0]


def test_a_handler_may_say_replacing(backend: SqliteBackend) -> None:
    """A job that its handler blocked in our own words waits for nobody, and is cancelled as any other."""
    enqueue(backend, "a", key="k")
    (job,) = claim(backend)
    backend.run(backend.verbs.finish("w", [Ending(job.ref, Move.BLOCK, reason=Reason.REPLACING)]))
    enqueue(backend, "b", key="k", on_conflict=OnConflict.REPLACE)
    assert [job.job_id for job in claim(backend, 2)] == ["b"]


def test_errors_are_found_in_any_case_of_any_letters(backend: SqliteBackend) -> None:
    """SQLite by itself knows the case of ASCII letters only."""
    enqueue(backend, "a")
    (job,) = claim(backend)
    failure = Failure("Error", "Ärger in der STRASSE")
    backend.run(backend.verbs.finish("w", [Ending(job.ref, Move.DIE, failure=failure)]))
    for words in ("ärger", "Straße", "strasse"):
        (found,) = backend.run(backend.verbs.list_jobs(JobFilter(error=words, states=(State.DEAD,)))).jobs
        assert found.id == "a"


def test_keys_and_tags_belong_to_their_namespace(path: Path, backend: SqliteBackend) -> None:
    """The same key in another namespace of the file is another key."""
    other = SqliteBackend(path, namespace="other")
    for store in (backend, other):
        enqueue(store, "a", key="k", tags=("t",), on_conflict=OnConflict.RAISE)
        assert len(store.run(store.verbs.list_jobs(JobFilter(tags=("t",), key="k"))).jobs) == 1
    other.close()
