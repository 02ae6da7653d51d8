"""One file, many processes and connections: forks, first starts, long transactions, namespaces."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast.model.crash import Death, DeathKind
from standfast.model.job import KnownTask, NewJob
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.sqlite.engine import Entry
from standfast.stores.sqlite.statements import load_migrations, load_statements
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, WorkerBeat, WorkerInfo
from standfast.stores.verb import Access
from standfast.testing import FakeClock

LEASE = timedelta(seconds=15)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def register(backend: SqliteBackend, worker: str) -> None:
    backend.run(backend.verbs.register(WorkerInfo(worker, "supervisor", "host", 1, LEASE)))


def run_script(script: str, path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", script, path], check=True, timeout=60)


FORK = """
import os, sys
from standfast.model.job import NewJob
from standfast.stores.contract import count_states
from standfast.stores.sqlite.store import SqliteBackend
backend = SqliteBackend(sys.argv[1])
backend.run(backend.verbs.enqueue([NewJob("parent", "task", b"")]))
inherited = backend._engine()
child = os.fork()
if child == 0:
    backend.run(backend.verbs.enqueue([NewJob("child", "task", b"")]))
    assert sum(backend.run(count_states(backend.verbs)).values()) == 2
    assert backend._engine() is not inherited
    assert list(backend._engines) == [os.getpid()]
    backend.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert backend._engine() is inherited
backend.run(backend.verbs.enqueue([NewJob("later", "task", b"")]))
assert sum(backend.run(count_states(backend.verbs)).values()) == 3
backend.close()
"""


def test_a_fork_reopens(path: Path) -> None:
    """A child never uses, nor closes, what its parent had open, and both go on working."""
    run_script(FORK, path)


FIRST_START = """
import os, sys
from standfast.model.job import NewJob
from standfast.stores.sqlite.store import SqliteBackend
backend = SqliteBackend(sys.argv[1])
sys.stdin.readline()
backend.run(backend.verbs.enqueue([NewJob(str(os.getpid()), "task", b"")]))
backend.close()
"""


def test_processes_that_start_at_once_do_no_harm(path: Path, backend: SqliteBackend) -> None:
    """Several processes create, migrate and use the same new file at the same moment."""
    command = [sys.executable, "-W", "error", "-c", FIRST_START, path]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(6)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.close()
    assert [child.wait(60) for child in children] == [0] * 6
    assert backend.run(count_states(backend.verbs))[State.READY] == 6


def test_migrations_leave_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails half-way leaves no table behind, and the next start begins anew."""
    whole = load_migrations("jobs", None)
    broken = ((*whole[0], "CREATE TABLE nonsense ("),)
    with monkeypatch.context() as patch:
        patch.setattr("standfast.stores.sqlite.statements.load_migrations", lambda *_: broken)
        first = SqliteBackend(path)
        with pytest.raises(Exception, match="incomplete input"):
            first.run(count_states(first.verbs))
        first.close()
    second = SqliteBackend(path)
    assert sum(second.run(count_states(second.verbs)).values()) == 0
    second.close()


def test_a_long_write_transaction_does_not_delay_beats(path: Path, backend: SqliteBackend) -> None:
    """While a user holds the write lock of the jobs file, beats, condemnations and reads go on at once."""
    register(backend, "alive")
    user = sqlite3.connect(path, isolation_level=None)
    user.execute("BEGIN IMMEDIATE")
    user.execute("CREATE TABLE users (name)")
    began = time.monotonic()
    for _ in range(20):
        assert backend.run(backend.verbs.beat([WorkerBeat("alive")])).accepted == {"alive"}
        assert backend.run(backend.verbs.condemn(frozenset({"alive"}))) == frozenset()
        backend.run(backend.verbs.workers())
    assert time.monotonic() - began < 2
    user.execute("COMMIT")
    user.close()


def test_a_locked_beats_file_does_not_delay_jobs(path: Path, backend: SqliteBackend) -> None:
    """The other way round: no write of jobs takes, or waits for, the lock of the beats file."""
    register(backend, "alive")
    beats = sqlite3.connect(f"{path}-beats", isolation_level=None)
    beats.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    backend.run(backend.verbs.enqueue([NewJob("a", "task", b"")]))
    assert len(backend.run(backend.verbs.claim(ClaimRequest("alive", 1, 10))).jobs) == 1
    assert len(backend.run(backend.verbs.bury("alive", Death(DeathKind.STOPPED)))) == 1
    assert time.monotonic() - began < 2
    beats.execute("ROLLBACK")
    beats.close()


def test_beats_of_another_boot_are_worth_nothing(
    path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reboot the boot clock starts again; whoever beat before it has expired at once."""
    register(backend, "before")
    backend.run(backend.verbs.beat([WorkerBeat("before")]))
    register(backend, "silent")
    monkeypatch.setattr("standfast.stores.sqlite.statements.this_boot", lambda: "another boot")
    rebooted = SqliteBackend(path, clock=FakeClock(boot=3.0))
    register(rebooted, "after")
    answer = rebooted.run(rebooted.verbs.beat([WorkerBeat("after")]))
    assert answer.expired == {"before", "silent"}
    ages = {worker.info.id: worker.beat_age for worker in rebooted.run(rebooted.verbs.workers())}
    assert ages["before"] > LEASE
    assert rebooted.run(rebooted.verbs.condemn(frozenset({"before", "after"}))) == {"before"}
    rebooted.close()


def test_marks_of_the_buried_are_swept(path: Path, backend: SqliteBackend, clock: FakeClock) -> None:
    """A later beat of anyone clears away what the buried left in the beats file."""
    register(backend, "gone")
    clock.advance(16)
    register(backend, "alive")
    backend.run(backend.verbs.condemn(frozenset({"gone"})))
    backend.run(backend.verbs.bury("gone", Death(DeathKind.VANISHED)))
    assert backend.run(backend.verbs.beat([WorkerBeat("gone"), WorkerBeat("alive")])).accepted == {"alive"}
    raw = sqlite3.connect(f"{path}-beats")
    assert raw.execute("SELECT worker FROM standfast_beat").fetchall() == [("alive",)]
    raw.close()


def test_a_burial_that_joins_a_begun_transaction_sees_the_mark(
    backend: SqliteBackend, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who condemned and then buries finds the mark, even if a leader began its transaction in between."""
    register(backend, "gone")
    backend.run(backend.verbs.enqueue([NewJob("a", "task", b"")]))
    backend.run(backend.verbs.claim(ClaimRequest("gone", 1, 10)))
    clock.advance(16)
    writer = backend._engine()._writers[Access.WRITE]
    entries = [writer.put_in_line(Entry(backend.verbs.pause("mail")))]
    take = writer._take

    def condemn_and_join() -> list[Entry[Any]]:
        monkeypatch.undo()
        assert backend.run(backend.verbs.condemn(frozenset({"gone"}))) == {"gone"}
        entries.append(writer.put_in_line(Entry(backend.verbs.bury("gone", Death(DeathKind.VANISHED)))))
        return take()

    monkeypatch.setattr(writer, "_take", condemn_and_join)
    writer.finish(entries[0])
    assert entries[1].done
    assert [ref.job_id for ref in writer.finish(entries[1])] == ["a"]
    assert backend.run(backend.verbs.workers()) == ()


def test_namespaces_do_not_see_each_other(path: Path) -> None:
    """Two namespaces and the nameless one share the files and nothing else."""
    stores = [SqliteBackend(path, namespace=name) for name in (None, "job", "a_b")]
    for number, store in enumerate(stores):
        register(store, "worker")
        store.run(store.verbs.enqueue([NewJob(str(n), "task", b"") for n in range(number + 1)]))
        store.run(store.verbs.beat([WorkerBeat("worker")]))
    assert [sum(store.run(count_states(store.verbs)).values()) for store in stores] == [1, 2, 3]
    assert [len(store.run(store.verbs.workers())) for store in stores] == [1, 1, 1]
    for store in stores:
        store.close()


def test_a_link_leads_to_the_same_store(path: Path, backend: SqliteBackend) -> None:
    """Opened through a symbolic link, a store still has its beats beside the file itself."""
    register(backend, "worker")
    link = path.with_name("link.db")
    link.symlink_to(path)
    linked = SqliteBackend(link)
    assert linked.run(linked.verbs.beat([WorkerBeat("worker")])).accepted == {"worker"}
    linked.close()
    assert not path.with_name("link.db-beats").exists()


def test_nothing_is_opened_before_the_first_verb(tmp_path: Path) -> None:
    """Making a store, or a verb of it, touches no file."""
    backend = SqliteBackend(tmp_path / "jobs.db")
    verb = count_states(backend.verbs)
    verb.steps.close()
    backend.close()
    assert list(tmp_path.iterdir()) == []


INDEXES = {
    "claim_due": "standfast_ready (queue=? AND alone=?)",
    "every_queue": "standfast_ready (queue>?)",
    "next_ready": "standfast_ready (queue=? AND alone=? AND priority=?)",
    "unblock_suspects": "standfast_blocked (reason=? AND task=? AND version=? AND queue=? AND alone=?)",
    "piles": "standfast_blocked (reason=? AND (task,version,queue,alone,priority,run_at)>(?,?,?,?,?,?))",
    "adoptable_jobs": "version=? AND queue=? AND alone=? AND priority=? AND run_at>? AND run_at<?)",
    "block_unknown": "standfast_ready (queue=? AND alone=?)",
    "promote": "standfast_due (run_at<?)",
    "next_scheduled": "standfast_due",
    "claim_ahead": "standfast_due (run_at>? AND run_at<?)",
    "claims_of": "standfast_claims (worker=?)",
    "claims_of_many": "standfast_claims (worker=?)",
    "unknown_tasks": "standfast_blocked (reason=? AND (task,version,queue)>(?,?,?))",
    "due_suspects": "COVERING INDEX standfast_suspects",
    "jobs_in_states": "standfast_dead",
    "complete": "sqlite_autoindex_standfast_job_1 (id=?)",
    "long_waits": "standfast_ready (queue=? AND alone=? AND priority=?)",
    "key_holder": "taken USING PRIMARY KEY (task=? AND key=?)",
    "free_replacement": "standfast_key USING PRIMARY KEY (task=? AND key=?)",
    "faded": "standfast_fading USING PRIMARY KEY (until_at<?)",
    "jobs": "sqlite_autoindex_standfast_job_1 (id>? AND id<?)",
    "keyed_jobs": "standfast_keyed (key=? AND id>? AND id<?)",
    "tagged_jobs": "first USING PRIMARY KEY (tag=? AND job>? AND job<?)",
    "jobs_end": "USING COVERING INDEX sqlite_autoindex_standfast_job_1 (id>? AND id<?)",
    "jobs_in_states_end": "standfast_cancelled",
    "queue_states": "COVERING INDEX standfast_dead",
    "glance": "sqlite_autoindex_standfast_job_1 (id=?)",
    "next_record": "COVERING INDEX standfast_agenda",
    "due_records": "standfast_agenda (due_at<?)",
    "records": "sqlite_autoindex_standfast_record_1 (kind=?)",
    "record_version": "sqlite_autoindex_standfast_record_1 (kind=? AND name=?)",
    "fires": "standfast_planned (planned>? AND planned<?)",
    "fires_of": "standfast_fire USING PRIMARY KEY (schedule=? AND planned>? AND planned<?)",
    "valid_claims": "sqlite_autoindex_standfast_job_1 (id=?)",
    "memos": "sqlite_autoindex_standfast_memo_1 (job=?)",
    "end_wait": "sqlite_autoindex_standfast_memo_1 (job=? AND name>? AND name<?)",
    "forget_memos": "sqlite_autoindex_standfast_memo_1 (job=?)",
    "unsettled": "standfast_due",
    "forget_old_fires": "standfast_fire USING PRIMARY KEY (schedule=? AND planned<?)",
}


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_hot_statements_use_their_index(backend: SqliteBackend, name: str) -> None:
    """A partial index serves only a query whose text proves that it may; each of these does."""
    connection = backend._engine().renew_reader(None)
    connection.execute("PRAGMA query_only = OFF")
    sql = load_statements(None)[name]
    parameters = [None] * sum(f"?{number}" in sql for number in range(1, 20))
    plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    connection.close()
    assert any(INDEXES[name] in step for *_, step in plan), plan


def test_jobs_that_wait_for_a_worker_cost_claims_and_beats_nothing(tmp_path: Path, clock: FakeClock) -> None:
    """A claim that adopts, one that does not, and a beat take as many steps with 20 such jobs as with 4,000."""
    few, many = (_steps_of_a_round(tmp_path / str(jobs), clock, jobs) for jobs in (20, 4_000))
    assert all(most < 1.2 * least for least, most in zip(few, many, strict=True)), (few, many)


def _steps_of_a_round(folder: Path, clock: FakeClock, jobs: int) -> list[int]:
    """Return how many steps of SQLite's machine each of some calls takes beside so many blocked jobs."""
    folder.mkdir()
    backend = SqliteBackend(folder / "jobs.db", clock=clock)
    verbs, known = backend.verbs, (KnownTask("new", 1),)
    register(backend, "w")
    backend.run(
        verbs.enqueue([NewJob(f"job-{number:05}", "new", b"", priority=number % 2) for number in range(jobs)])
    )
    left = True
    while left:
        left = backend.run(verbs.claim(ClaimRequest("w", 1, 0, unknown=known))).next_due_at is not None
    backend.run(verbs.beat([WorkerBeat("w")]))
    steps: list[None] = []
    for access in (Access.WRITE, Access.BEAT):
        connection = backend._engine()._writers[access]._connection
        assert connection is not None
        connection.set_progress_handler(lambda: steps.append(None), 1)
    adopting = ClaimRequest("w", 3, 5, adopt=known, max_wait=LEASE, look_ahead=LEASE, ahead_limit=5)
    taken = []
    for verb in (verbs.claim(ClaimRequest("w", 2, 10)), verbs.claim(adopting), verbs.beat([WorkerBeat("w")])):
        steps.clear()
        backend.run(verb)
        taken.append(len(steps))
    backend.close()
    return taken


@pytest.mark.parametrize(
    "damage", ["run_at = 'x'", "run_at = x'ff'", "queue = x'ff'", "version = 'x'", "priority = 'x'"]
)
def test_a_damaged_one_among_jobs_that_wait_for_a_worker_costs_itself_alone(
    tmp_path: Path, clock: FakeClock, damage: str
) -> None:
    """Claims that adopt, and beats, end and bring the others."""
    backend, known = SqliteBackend(tmp_path / "jobs.db", clock=clock), (KnownTask("new", 1), KnownTask("old", 1))
    verbs = backend.verbs
    register(backend, "w")
    backend.run(verbs.enqueue([NewJob(f"job-{number}", "new" if number else "old", b"") for number in range(5)]))
    backend.run(verbs.claim(ClaimRequest("w", 1, 0, unknown=known)))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as raw:
        raw.execute(f"UPDATE standfast_job SET {damage} WHERE id = 'job-2'")
        raw.commit()
    claims = backend.run(verbs.claim(ClaimRequest("w", 2, 9, adopt=known))).jobs
    assert {claim.job_id for claim in claims} >= {"job-0", "job-1", "job-3", "job-4"}
    assert backend.run(verbs.beat([WorkerBeat("w")])).accepted == {"w"}
    backend.close()
