"""Files that are replaced or removed while in use: nobody stays on a file that has lost its name."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from standfast.errors import StoreUnavailableError
from standfast.model.clock import SystemClock
from standfast.model.job import NewJob
from standfast.stores.contract import count_states
from standfast.stores.doctor import Severity
from standfast.stores.sqlite import notify
from standfast.stores.sqlite.connect import Files
from standfast.stores.sqlite.doctor import examine_file
from standfast.stores.sqlite.migrate import refuse_missing_tables
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import JobFilter, WorkerBeat, WorkerInfo


@pytest.fixture
def backend(backend: SqliteBackend) -> SqliteBackend:
    use_all(backend, "old")
    return backend


def use_all(backend: SqliteBackend, job: str) -> None:
    """Open a connection of each kind."""
    backend.run(backend.verbs.enqueue([NewJob(job, "task", b"")]))
    backend.run(backend.verbs.register(WorkerInfo("worker", "supervisor", "host", 1, timedelta(seconds=15))))
    backend.run(backend.verbs.beat([WorkerBeat("worker")]))
    backend.run(count_states(backend.verbs))


def is_stored(path: Path, job: str) -> bool:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute("SELECT count(*) FROM standfast_job WHERE id = ?", (job,)).fetchone() == (1,)


def remove(path: Path) -> None:
    files = Files.of(path)
    for file in (files.jobs, files.beats):
        for end in ("", "-wal", "-shm"):
            Path(f"{file}{end}").unlink(missing_ok=True)


def other_store(folder: Path) -> Path:
    """Make a store elsewhere that holds the job 'restored'."""
    folder.mkdir()
    backend = SqliteBackend(folder / "jobs.db")
    use_all(backend, "restored")
    backend.close()
    return folder / "jobs.db"


def restore(backup: Path, path: Path) -> None:
    remove(path)
    for end in ("-beats", ""):
        shutil.move(f"{backup}{end}", f"{path}{end}")


def test_a_restored_backup_is_used_at_once(path: Path, backend: SqliteBackend) -> None:
    """Writes, reads and beats go to the file that bears the name now."""
    restore(other_store(path.parent / "backup"), path)
    assert backend.run(backend.verbs.get("old")) is None
    assert backend.run(backend.verbs.get("restored")) is not None
    backend.run(backend.verbs.enqueue([NewJob("new", "task", b"")]))
    assert backend.run(backend.verbs.beat([WorkerBeat("worker")])).accepted == {"worker"}
    assert is_stored(path, "new")


def test_a_new_file_without_tables_is_made_ready(path: Path, backend: SqliteBackend) -> None:
    """Who puts an empty file there begins with an empty store."""
    remove(path)
    path.touch()
    backend.run(backend.verbs.enqueue([NewJob("new", "task", b"")]))
    assert is_stored(path, "new")
    assert sum(backend.run(count_states(backend.verbs)).values()) == 1


@pytest.mark.parametrize("call", ["write", "read", "beat"])
def test_a_removed_file_is_missed_and_not_made_anew(path: Path, backend: SqliteBackend, call: str) -> None:
    """Every call says that the file is gone; once it is back, they work."""
    verbs = {
        "write": lambda: backend.verbs.pause("mail"),
        "read": lambda: count_states(backend.verbs),
        "beat": lambda: backend.verbs.beat([WorkerBeat("worker")]),
    }
    backup = other_store(path.parent / "backup")
    remove(path)
    for _ in range(2):
        with pytest.raises(
            StoreUnavailableError, match=r"jobs\.db was removed .* while in use: put it back, or restart"
        ):
            backend.run(verbs[call]())
    assert not path.exists()
    restore(backup, path)
    backend.run(verbs[call]())
    assert backend.run(backend.verbs.get("restored")) is not None


def test_lost_beats_are_made_anew(path: Path, backend: SqliteBackend) -> None:
    """The beats file holds nothing that must survive: without it, workers beat into a new one."""
    files = Files.of(path)
    for end in ("", "-wal", "-shm"):
        Path(f"{files.beats}{end}").unlink(missing_ok=True)
    assert backend.run(backend.verbs.beat([WorkerBeat("worker")])).accepted == {"worker"}
    with closing(sqlite3.connect(files.beats)) as raw:
        assert raw.execute("SELECT worker FROM standfast_beat").fetchall() == [("worker",)]
    assert backend.run(backend.verbs.get("old")) is not None


async def test_a_listener_watches_the_file_that_bears_the_name(
    path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of a restored file is news, and is the one looked at from then on."""
    monkeypatch.setattr(notify, "LOOK_EVERY", 0.01)

    listener = backend.bell.listen()
    heard = [await listener.wait(0.05)]
    restore(other_store(path.parent / "backup"), path)
    heard += [await listener.wait(30), await listener.wait(0.05)]
    with closing(sqlite3.connect(path)) as raw:
        columns = "state, queue, priority, run_at, task, version, max_attempts, created_at, payload"
        raw.execute(f"INSERT INTO standfast_job (id, {columns}) SELECT 'new', {columns} FROM standfast_job")
        raw.commit()
    heard += [await listener.wait(30), await listener.wait(0.05)]
    listener.close()
    assert heard == [False, True, False, True, False]


CALLS = {
    "write": lambda backend: backend.verbs.enqueue([NewJob("late", "task", b"")]),
    "read": lambda backend: count_states(backend.verbs),
    "beat": lambda backend: backend.verbs.beat([WorkerBeat("worker")]),
}


def move_a_backup_over(path: Path) -> bytes:
    """Do what many do: copy the file in good order, use the store further, and move the copy back. Return it."""
    backup = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as raw, closing(sqlite3.connect(backup)) as target:
        raw.backup(target)
        raw.execute("UPDATE standfast_job SET payload = zeroblob(100000)")
        raw.commit()
    backup.rename(path)
    return path.read_bytes()


@pytest.mark.parametrize("call", CALLS)
def test_a_backup_moved_over_a_file_in_use_is_not_opened_beside_the_log_of_the_file_before(
    path: Path, backend: SqliteBackend, call: str
) -> None:
    """SQLite would write that log into the backup. Once the log is deleted, all work again."""
    with closing(SqliteBackend(path)) as other:
        use_all(other, "other")
        moved = move_a_backup_over(path)
        for user in (backend, other, backend):
            with pytest.raises(StoreUnavailableError, match=r"was replaced, and jobs\.db-wal and .*-shm .* delete"):
                user.run(CALLS[call](user))
    assert path.read_bytes() == moved
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    backend.run(CALLS[call](backend))
    assert {job.id for job in backend.run(backend.verbs.list_jobs(JobFilter())).jobs} >= {"old", "other"}


def test_who_only_closes_a_replaced_file_leaves_it_as_it_is(path: Path, backend: SqliteBackend) -> None:
    """The last one tidies up: not with the log of another file."""
    moved = move_a_backup_over(path)
    backend.close()
    assert path.read_bytes() == moved


def use_and_die(path: Path) -> None:
    """Use a store in a process that is killed: its log stays behind."""
    program = (
        "import os, sys; from standfast.model.job import NewJob;"
        "from standfast.stores.sqlite.store import SqliteBackend;"
        "backend = SqliteBackend(sys.argv[1]); job = NewJob('of-the-dead', 'task', b'');"
        "backend.run(backend.verbs.enqueue([job]));"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)


@pytest.mark.parametrize("look", ["use", "look", "doctor"])
def test_a_new_process_knows_the_log_that_a_killed_one_left_beside_a_replaced_file(path: Path, look: str) -> None:
    """It was noted with which file the log was: no process has to have seen both."""
    use_and_die(path)
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as raw,
        closing(sqlite3.connect(path.with_name("backup.db"))) as target,
    ):
        raw.backup(target)
    path.with_name("backup.db").rename(path)
    moved = path.read_bytes()
    if look == "doctor":
        findings = examine_file(str(path), None, SystemClock(), deep=True).findings
        assert [each for each in findings if each.severity is Severity.PROBLEM and "was replaced" in each.says]
    else:
        with pytest.raises(StoreUnavailableError, match="was replaced"), closing(SqliteBackend(path)) as backend:
            refuse_missing_tables(str(path), None) if look == "look" else backend.run(count_states(backend.verbs))
    assert path.read_bytes() == moved


def test_a_log_that_a_killed_process_left_is_used_with_its_file(path: Path) -> None:
    """Also where all of them were copied elsewhere together."""
    use_and_die(path)
    there = path.parent / "there"
    there.mkdir()
    for file in [each for each in path.parent.iterdir() if each != there]:
        (shutil.copytree if file.is_dir() else shutil.copy)(file, there / file.name)
    for each in (path, there / path.name):
        with closing(SqliteBackend(each)) as backend:
            assert backend.run(backend.verbs.get("of-the-dead")) is not None


@pytest.mark.parametrize("call", CALLS)
def test_nothing_more_is_accepted_once_the_log_was_deleted(path: Path, backend: SqliteBackend, call: str) -> None:
    """What was accepted before is saved in the file. Once all have closed it, it works again."""
    with closing(SqliteBackend(path)) as other:
        use_all(other, "other")
        Path(f"{path}-wal").unlink()
        with pytest.raises(StoreUnavailableError, match=r"jobs\.db-wal was deleted while programs use"):
            backend.run(CALLS[call](backend))
        with closing(SqliteBackend(path)) as fresh, pytest.raises(StoreUnavailableError, match="was deleted"):
            fresh.run(CALLS[call](fresh))
        assert not Path(f"{path}-wal").exists()
    backend.close()
    with closing(SqliteBackend(path)) as again:
        again.run(CALLS[call](again))
        assert {job.id for job in again.run(again.verbs.list_jobs(JobFilter())).jobs} >= {"old", "other"}


def test_a_log_that_another_program_made_in_place_of_the_deleted_one_is_not_used(
    path: Path, backend: SqliteBackend
) -> None:
    """It stands beside the index of the log before it: what is read through both is neither."""
    Path(f"{path}-wal").unlink()
    Path(f"{path}-wal").touch()
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="was deleted"):
            backend.run(CALLS["write"](backend))


def test_a_job_in_a_transaction_of_ones_own_is_refused_as_well(path: Path, backend: SqliteBackend) -> None:
    """That connection may have the log open that was deleted, which others do not see."""
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        own.execute("SELECT count(*) FROM standfast_job").fetchone()
        Path(f"{path}-wal").unlink()
        own.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="was deleted"):
            backend.run_in(CALLS["write"](backend), own)
        own.execute("ROLLBACK")
