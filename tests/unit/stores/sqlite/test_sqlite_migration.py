"""A file of an earlier schema is brought to this release where it is, with all that is in it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast.model.job import ClaimRef, Ending, JobAction, NewJob, OnConflict, OnLate, Progress, Verdict
from standfast.model.memos import FOR_EVER, Memo, Save, signal_memo, signal_reason
from standfast.model.records import Change, Decision, Fire, Kind, Record
from standfast.model.states import Move, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.rows import seconds_to_micros, to_micros
from standfast.stores.sqlite.statements import load_migrations, this_boot
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, JobFilter, Turn, Vitals, WorkerBeat
from standfast.testing import FakeClock

CLOCK = FakeClock()
NOW = to_micros(CLOCK.now())
BOOT = seconds_to_micros(CLOCK.boot())
SOON = timedelta(seconds=10)

COUNTED_SINCE = 5
"""The first migration whose release counts the jobs of each queue."""

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


@pytest.fixture(params=range(1, len(load_migrations("jobs", None))))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file as an earlier release left it: its own migrations alone, a few jobs, and their worker.

    Beside it are the heartbeats of that worker, and of one that was condemned.
    """
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as connection:
        migrate_to(connection, "jobs", request.param)
        for job in JOBS:
            insert(connection, "standfast_job", {**PLAIN, **job})
        if request.param >= COUNTED_SINCE:
            insert(connection, "standfast_size", {"queue": PLAIN["queue"], "jobs": len(JOBS)})
        attempt = {"job": 2, "fence": 1, "worker": "w", "ended_at": NOW, "how": "retry", "ended_by": "finish"}
        insert(connection, "standfast_attempt", {**attempt, "error": "E: no"})
        worker = {"supervisor": "s", "host": "h", "pid": 1, "concurrency": 1, "started_at": NOW}
        for id_ in ("w", "condemned"):
            life = {"id": id_, "lease": 15 * 10**6, "boot_at": 0, "boot_id": this_boot()}
            insert(connection, "standfast_worker", {**worker, **life})
        connection.commit()
    with closing(sqlite3.connect(f"{path}-beats")) as connection:
        migrate_to(connection, "beats", 1)
        for id_, condemned in (("w", 0), ("condemned", 1)):
            beat = {"worker": id_, "beat_at": BOOT, "boot_id": this_boot(), "condemned": condemned}
            insert(connection, "standfast_beat", beat)
        connection.commit()
    return path


def migrate_to(connection: sqlite3.Connection, kind: str, version: int) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    for statements in load_migrations(kind, None)[:version]:
        for statement in statements:
            connection.execute(statement)
    connection.execute("UPDATE standfast_schema SET version = ?", (version,))


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", row)


@pytest.fixture
def clock() -> FakeClock:
    return CLOCK


def test_every_job_is_as_it_was(backend: SqliteBackend) -> None:
    """All that was stored is shown again, and what is new has the value that says nothing."""
    jobs = {job.id: job for job in backend.run(backend.verbs.list_jobs(JobFilter())).jobs}
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
    run(change_job(verbs, JobAction.RETRY, "e"))
    run(verbs.enqueue([NewJob("f", "send", b"6", key="k", tags=("t",), metadata={"n": "1"})]))
    again = NewJob("g", "send", b"7", key="k", on_conflict=OnConflict.RETURN)
    assert run(verbs.enqueue([again])) == {"g": "f"}
    claims = run(verbs.claim(ClaimRequest("w", 2, 10, look_ahead=2 * SOON, ahead_limit=5))).jobs
    assert sorted(claim.job_id for claim in claims) == ["a", "b", "e", "f"]
    endings = [Ending(claim.ref, Move.COMPLETE, log="done", keep_result=SOON, result=b"1") for claim in claims]
    assert set(run(verbs.finish("w", endings))) == {Verdict.ACCEPTED}
    assert run(count_states(verbs))[State.COMPLETED] == len(JOBS) + 1


def test_those_who_lived_live_on(backend: SqliteBackend) -> None:
    """A worker that has beaten is not taken for dead, one that is condemned stays so, and beats can tell more."""
    run, verbs = backend.run, backend.verbs
    assert [(worker.info.id, worker.condemned) for worker in run(verbs.workers())] == [
        ("w", False),
        ("condemned", True),
    ]
    assert run(verbs.condemn(frozenset({"w"}))) == frozenset()
    answer = run(verbs.beat([WorkerBeat("w", polled_at=CLOCK.now()), WorkerBeat("condemned")]))
    assert answer.turns == {"w": Turn(0, 1, CLOCK.now())}
    assert answer.record_due_at is None
    run(verbs.beat([WorkerBeat("w", vitals=Vitals(memory=1)), WorkerBeat("condemned", vitals=Vitals())]))
    assert [worker.vitals for worker in run(verbs.workers())] == [Vitals(memory=1), None]


def test_records_can_be_kept(backend: SqliteBackend) -> None:
    """A schedule and its fire stand beside the jobs that were there before."""
    run, verbs = backend.run, backend.verbs
    fire = Fire("nightly", CLOCK.now(), Decision.FIRED, job_id="f")
    change = Change(Kind.SCHEDULE, "nightly", 0, "token", b"{}", CLOCK.now(), (fire,), (NewJob("f", "send", b"6"),))
    assert run(verbs.change_records([change])) == (True,)
    assert run(verbs.records(Kind.SCHEDULE)) == (Record(Kind.SCHEDULE, "nightly", 1, CLOCK.now(), b"{}", "token"),)
    assert [fire.job_id for fire in run(verbs.fires("nightly", 10))] == ["f"]
    assert len(run(verbs.list_jobs(JobFilter())).jobs) == len(JOBS) + 1
    assert run(verbs.beat([WorkerBeat("w")])).record_due_at == CLOCK.now()


def test_memos_can_be_kept(backend: SqliteBackend) -> None:
    """A job that ran when the file was migrated says how far it is, waits for a signal, and goes on."""
    run, verbs = backend.run, backend.verbs
    ref = ClaimRef("c", 4)
    assert run(verbs.memos("c")) == ()
    assert run(verbs.progress("w", [(ref, Progress(1, 2, "half"))])) == (Verdict.ACCEPTED,)
    assert run(verbs.glance(["c"]))["c"].progress == Progress(1, 2, "half")
    assert run(verbs.save("w", [Save(ref, 1, (Memo("cursor", b"1"),))])) == (Verdict.ACCEPTED,)
    waits = Ending(ref, Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("go"))
    assert run(verbs.finish("w", [waits])) == (Verdict.ACCEPTED,)
    assert run(verbs.signal("c", "go", "t1", b"2"))
    assert run(verbs.memos("c")) == (Memo("cursor", b"1"), Memo(signal_memo("go", "t1"), b"2"))
    assert "c" in {claim.job_id for claim in run(verbs.claim(ClaimRequest("w", 2, 10))).jobs}


OPEN = """
import os, sys
from standfast.model.job import NewJob
from standfast.stores.sqlite.store import SqliteBackend
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
    assert sum(backend.run(count_states(backend.verbs)).values()) == len(JOBS) + 5
    backend.close()
    for kind, file in (("jobs", path), ("beats", f"{path}-beats")):
        with closing(sqlite3.connect(file)) as connection:
            [(version,)] = connection.execute("SELECT version FROM standfast_schema").fetchall()
        assert version == len(load_migrations(kind, None))
