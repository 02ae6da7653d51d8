"""Files that are replaced or removed while in use: nobody stays on a file that has lost its name."""

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.job import NewJob
from holdfast.errors import StoreUnavailableError
from holdfast.store.protocol import WorkerBeat, WorkerInfo
from holdfast.store.sqlite import SqliteBackend, bell
from holdfast.store.sqlite.connect import Files


@pytest.fixture
def backend(backend: SqliteBackend) -> SqliteBackend:
    use_all(backend, "old")
    return backend


def use_all(backend: SqliteBackend, job: str) -> None:
    """Open a connection of each kind."""
    backend.run(backend.verbs.enqueue([NewJob(job, "task", b"")]))
    backend.run(backend.verbs.register(WorkerInfo("worker", "supervisor", "host", 1, timedelta(seconds=15))))
    backend.run(backend.verbs.beat([WorkerBeat("worker")]))
    backend.run(backend.verbs.count())


def is_stored(path: Path, job: str) -> bool:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute("SELECT count(*) FROM holdfast_job WHERE id = ?", (job,)).fetchone() == (1,)


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
    assert sum(backend.run(backend.verbs.count()).values()) == 1


@pytest.mark.parametrize("call", ["write", "read", "beat"])
def test_a_removed_file_is_missed_and_not_made_anew(path: Path, backend: SqliteBackend, call: str) -> None:
    """Every call says that the file is gone; once it is back, they work."""
    verbs = {
        "write": lambda: backend.verbs.pause("mail"),
        "read": backend.verbs.count,
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
        assert raw.execute("SELECT worker FROM holdfast_beat").fetchall() == [("worker",)]
    assert backend.run(backend.verbs.get("old")) is not None


async def test_a_listener_watches_the_file_that_bears_the_name(
    path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of a restored file is news, and is the one looked at from then on."""
    monkeypatch.setattr(bell, "LOOK_EVERY", 0.01)

    listener = backend.bell.listen()
    heard = [await listener.wait(0.05)]
    restore(other_store(path.parent / "backup"), path)
    heard += [await listener.wait(30), await listener.wait(0.05)]
    with closing(sqlite3.connect(path)) as raw:
        columns = "state, queue, priority, run_at, task, version, max_attempts, created_at, payload"
        raw.execute(f"INSERT INTO holdfast_job (id, {columns}) SELECT 'new', {columns} FROM holdfast_job")
        raw.commit()
    heard += [await listener.wait(30), await listener.wait(0.05)]
    listener.close()
    assert heard == [False, True, False, True, False]
