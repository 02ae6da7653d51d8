"""A file of an earlier schema is brought to this release where it is, with all that is in it."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.job import ClaimRef, Ending, NewJob, OnConflict, OnLate, Progress, Verdict
from holdfast.core.states import Move, State
from holdfast.store.protocol import ClaimRequest, JobFilter
from holdfast.store.sqlite import SqliteBackend
from holdfast.store.sqlite.sql_files import load_migrations
from holdfast.store.times import to_micros
from holdfast.testing import FakeClock

CLOCK = FakeClock()
NOW = to_micros(CLOCK.now())
SOON = timedelta(seconds=10)

PLAIN: dict[str, Any] = {
    "queue": "mail",
    "priority": 0,
    "run_at": NOW,
    "task": "send",
    "version": 1,
    "max_attempts": 5,
    "created_at": NOW,
}
CLAIMED: dict[str, Any] = {"worker": "w", "call": 1, "started_at": NOW}

JOBS: list[dict[str, Any]] = [
    {"id": "a", "state": "ready", "payload": b"1", "priority": 3},
    {"id": "b", "state": "scheduled", "payload": b"2", "run_at": NOW + 10**7, "fence": 1, "error": "E: no"},
    {"id": "c", "state": "running", "payload": b"3", "fence": 4, "progress_done": 0.5, **CLAIMED},
    {"id": "d", "state": "completed", "payload": b"4", "fence": 1, "finished_at": NOW, "result": b"42", **CLAIMED},
    {"id": "e", "state": "dead", "payload": b"5", "fence": 1, "finished_at": NOW, "error": "E: never", **CLAIMED},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file as the first release left it: its own migration alone, a few jobs, and their worker."""
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in load_migrations("jobs", None)[0]:
            connection.execute(statement)
        connection.execute("UPDATE holdfast_schema SET version = 1")
        for job in JOBS:
            insert(connection, "holdfast_job", {**PLAIN, **job})
        attempt = {"job": 2, "fence": 1, "worker": "w", "ended_at": NOW, "how": "retry", "ended_by": "finish"}
        insert(connection, "holdfast_attempt", {**attempt, "error": "E: no"})
        worker = {"id": "w", "supervisor": "s", "host": "h", "pid": 1, "concurrency": 1, "started_at": NOW}
        insert(connection, "holdfast_worker", {**worker, "lease": 15 * 10**6, "boot_at": 0, "boot_id": "this"})
        connection.commit()
    return path


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", row)


@pytest.fixture
def backend(path: Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(path, clock=CLOCK)
    yield backend
    backend.close()


def test_every_job_is_as_it_was(backend: SqliteBackend) -> None:
    """All that was stored is shown again, and what is new has the value that says nothing."""
    jobs = {job.id: job for job in backend.run(backend.verbs.list_jobs(JobFilter()))}
    assert {id_: (job.state, job.payload) for id_, job in jobs.items()} == {
        job["id"]: (State(job["state"]), job["payload"]) for job in JOBS
    }
    assert (jobs["a"].priority, jobs["c"].fence, jobs["c"].progress) == (3, 4, Progress(0.5))
    assert (jobs["d"].result, jobs["e"].error) == (b"42", "E: never")
    for job in jobs.values():
        assert (job.key, job.tags, dict(job.metadata), job.after) == (None, (), {}, None)
        assert (job.start_by, job.on_late, job.result_until) == (None, OnLate.RUN, None)
    (attempt,) = backend.run(backend.verbs.history("b"))
    assert (attempt.error, attempt.log) == ("E: no", None)


def test_life_goes_on(backend: SqliteBackend) -> None:
    """Jobs that were stored before are claimed, finished and requeued, and stand beside new ones with keys."""
    run, verbs = backend.run, backend.verbs
    assert run(verbs.finish("w", [Ending(ClaimRef("c", 4), Move.COMPLETE, result=b"3")])) == (Verdict.ACCEPTED,)
    run(verbs.requeue("e"))
    run(verbs.enqueue([NewJob("f", "send", b"6", key="k", tags=("t",), metadata={"n": "1"})]))
    again = NewJob("g", "send", b"7", key="k", on_conflict=OnConflict.RETURN)
    assert run(verbs.enqueue([again])) == {"g": "f"}
    claims = run(verbs.claim(ClaimRequest("w", 2, 10, look_ahead=2 * SOON, ahead_limit=5))).jobs
    assert sorted(claim.job_id for claim in claims) == ["a", "b", "e", "f"]
    endings = [Ending(claim.ref, Move.COMPLETE, log="done", keep_result=SOON, result=b"1") for claim in claims]
    assert set(run(verbs.finish("w", endings))) == {Verdict.ACCEPTED}
    assert run(verbs.count())[State.COMPLETED] == len(JOBS) + 1


OPEN = """
import os, sys
from holdfast.core.job import NewJob
from holdfast.store.sqlite import SqliteBackend
backend = SqliteBackend(sys.argv[1])
sys.stdin.readline()
backend.run(backend.verbs.enqueue([NewJob(str(os.getpid()), "task", b"", key=str(os.getpid()))]))
backend.close()
"""


def test_processes_that_migrate_at_once_do_no_harm(path: Path) -> None:
    """Several processes of a new release find the old file at the same moment: it is migrated once, by one."""
    command = [sys.executable, "-W", "error", "-c", OPEN, path]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(5)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.close()
    assert [child.wait(60) for child in children] == [0] * 5
    backend = SqliteBackend(path, clock=CLOCK)
    assert sum(backend.run(backend.verbs.count()).values()) == len(JOBS) + 5
    backend.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version FROM holdfast_schema").fetchall() == [
            (len(load_migrations("jobs", None)),)
        ]
