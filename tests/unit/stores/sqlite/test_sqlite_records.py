"""Records in SQLite, where a promise of the contract hangs on files, processes and transactions."""

import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest

from standfast.errors import ValueNotStoredError
from standfast.model.job import NewJob
from standfast.model.records import Change, Decision, Fire, Kind
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import JobFilter
from standfast.testing import FakeClock

CLOCK = FakeClock()
FIRES = 20


@pytest.fixture
def clock() -> FakeClock:
    return CLOCK


def firing(name: str, job_id: str) -> Change:
    fire = Fire(name, CLOCK.now(), Decision.FIRED, job_id=job_id)
    return Change(Kind.SCHEDULE, name, 0, job_id, b"{}", CLOCK.now(), (fire,), (NewJob(job_id, "task", b""),))


def shown(backend: SqliteBackend) -> list[int]:
    """Return how many records, fires and jobs there are."""
    run, verbs = backend.run, backend.verbs
    found = (
        run(verbs.records(Kind.SCHEDULE)),
        run(verbs.fires(None, 1000)),
        run(verbs.list_jobs(JobFilter())).jobs,
    )
    return [len(rows) for rows in found]


SUPERVISE = """
import sys, uuid
from datetime import UTC, datetime, timedelta
from standfast.model.job import NewJob
from standfast.model.records import Change, Decision, Fire, Kind
from standfast.stores.sqlite.store import SqliteBackend

backend = SqliteBackend(sys.argv[1])
run, verbs = backend.run, backend.verbs
for _ in range(int(sys.argv[2])):
    (record,) = run(verbs.records(Kind.SCHEDULE, ["tick"])) or (None,)
    seen = record.version if record else 0
    token, planned = str(uuid.uuid4()), datetime(2031, 1, 1, tzinfo=UTC) + timedelta(seconds=seen)
    fire = Fire("tick", planned, Decision.FIRED, job_id=token)
    change = Change(Kind.SCHEDULE, "tick", seen, token, b"{}", None, (fire,), (NewJob(token, "task", b""),))
    print("ready", flush=True)
    sys.stdin.readline()
    print(*run(verbs.change_records([change])), flush=True)
backend.close()
"""


def test_processes_fire_each_time_once(path: Path, backend: SqliteBackend) -> None:
    """Of several processes that come to fire a schedule, having seen the same, one does, time after time."""
    command: list[str | Path] = [sys.executable, "-u", "-W", "error", "-c", SUPERVISE, path, str(FIRES)]
    with ExitStack() as running:
        children = [running.enter_context(supervisor(command)) for _ in range(4)]
        for _ in range(FIRES):
            assert [told(child) for child in children] == ["ready"] * 4
            for child in children:
                say(child, "go")
            assert sorted(told(child) for child in children) == ["False", "False", "False", "True"]
    fires = backend.run(backend.verbs.fires("tick", 2 * FIRES))
    jobs = backend.run(backend.verbs.list_jobs(JobFilter(limit=2 * FIRES))).jobs
    assert len(fires) == len(jobs) == FIRES
    assert {fire.job_id for fire in fires} == {job.id for job in jobs}


def supervisor(command: list[str | Path]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def told(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.mark.parametrize("company", [1, 2])
def test_a_change_that_cannot_be_stored_takes_the_call_along(backend: SqliteBackend, company: int) -> None:
    """What SQLite cannot hold, in whichever change, leaves nothing of the call behind."""
    changes = [firing(f"good-{number}", f"job-{number}") for number in range(company)]
    with pytest.raises(ValueNotStoredError):
        backend.run(backend.verbs.change_records([*changes, firing("bad", "\udc80")]))
    assert shown(backend) == [0, 0, 0]


def test_namespaces_do_not_meet(path: Path, backend: SqliteBackend) -> None:
    """Each namespace of a file has records, fires and times of its own."""
    backend.run(backend.verbs.change_records([firing("same", "job")]))
    other = SqliteBackend(path, clock=CLOCK, namespace="other")
    assert shown(other) == [0, 0, 0]
    assert other.run(other.verbs.beat([])).record_due_at is None
    assert other.run(other.verbs.change_records([firing("same", "job")])) == (True,)
    assert len(other.run(other.verbs.due_records(Kind.SCHEDULE, timedelta(), 10)).records) == 1
    other.close()
    assert shown(backend) == [1, 1, 1]


@pytest.mark.parametrize("commits", [False, True])
def test_a_change_in_a_transaction_of_the_users_own(path: Path, backend: SqliteBackend, *, commits: bool) -> None:
    """It is made with what the user writes, or not at all."""
    shown(backend)
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE theirs (name)")
        own.execute("INSERT INTO theirs VALUES ('theirs')")
        assert backend.run_in(backend.verbs.change_records([firing("a", "job")]), own) == (True,)
        assert shown(backend) == [0, 0, 0]
        own.commit() if commits else own.rollback()
    assert shown(backend) == [int(commits)] * 3
