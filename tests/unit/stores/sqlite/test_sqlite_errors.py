"""No error of sqlite3 escapes: each becomes one line of ours that names the file and what to do."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

import pytest

from standfast.errors import (
    ConfigurationError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.model.job import NewJob
from standfast.stores.contract import count_states
from standfast.stores.sqlite import connect
from standfast.stores.sqlite.connect import file_system_of, refuse_network_file_system
from standfast.stores.sqlite.engine import Entry
from standfast.stores.sqlite.statements import load_migrations, translate
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Access, Query, Steps, Verb

PATH = Path("/data/jobs.db")
CODES = sorted(
    {value for name, value in vars(sqlite3).items() if name.startswith("SQLITE_") and isinstance(value, int)}
)


def new_jobs(count: int, payload: bytes = b"") -> list[NewJob]:
    return [NewJob(f"job-{number}", "task", payload) for number in range(count)]


@pytest.mark.parametrize("code", CODES)
def test_every_code_becomes_one_line_that_names_the_file(code: int) -> None:
    """Whatever code SQLite gives, the translation is ours, one line long, and names the file."""
    error = sqlite3.OperationalError("some reason")
    error.sqlite_errorcode = code
    translation = translate(error, PATH)
    assert isinstance(translation, StoreError)
    assert "jobs.db" in str(translation)
    assert "\n" not in str(translation)


def test_errors_of_the_module_itself_are_translated_too() -> None:
    """An error without a code, such as of a wrong type, is translated as well."""
    assert type(translate(sqlite3.ProgrammingError("type 'X' is not supported"), PATH)) is StoreError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailableError),
        (sqlite3.SQLITE_LOCKED, StoreUnavailableError),
        (sqlite3.SQLITE_IOERR_READ, StoreUnavailableError),
        (sqlite3.SQLITE_FULL, StoreFullError),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFullError),
        (sqlite3.SQLITE_READONLY, StoreError),
        (sqlite3.SQLITE_NOTADB, StoreError),
        (sqlite3.SQLITE_CORRUPT, StoreError),
    ],
)
def test_what_may_pass_is_told_from_what_will_not(code: int, kind: type[StoreError]) -> None:
    """Locks and read errors may pass, a full disk needs room, the rest needs a person."""
    error = sqlite3.OperationalError("some reason")
    error.sqlite_errorcode = code
    assert type(translate(error, PATH)) is kind


def test_a_missing_folder_is_named_with_its_remedy(tmp_path: Path) -> None:
    """Opening a file in a folder that is not there says which, and how to make it."""
    backend = SqliteBackend(tmp_path / "not" / "there" / "jobs.db")
    with pytest.raises(StoreError, match=rf"mkdir -p {tmp_path}/not/there"):
        backend.run(count_states(backend.verbs))
    backend.close()
    assert not (tmp_path / "not").exists()


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    """Naming a folder is refused in so many words."""
    backend = SqliteBackend(tmp_path)
    with pytest.raises(StoreError, match="is a folder"):
        backend.run(count_states(backend.verbs))
    backend.close()


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_store_needs_a_file(name: str) -> None:
    """There is no SQLite store in memory: beats and bell need a place."""
    with pytest.raises(ConfigurationError, match="needs a file"):
        SqliteBackend(name)


def test_a_file_that_is_no_database_is_left_alone(path: Path, backend: SqliteBackend) -> None:
    """Some other file is refused and not touched, and no other file appears beside it."""
    text = "dear diary, " * 1000
    path.write_text(text)
    with pytest.raises(StoreError, match="no sound SQLite database"):
        backend.run(backend.verbs.enqueue(new_jobs(1)))
    assert path.read_text() == text
    assert os.listdir(path.parent) == ["jobs.db"]  # noqa: PTH208 - names are compared


def test_a_newer_schema_is_refused(path: Path, backend: SqliteBackend) -> None:
    """A file of a later release is refused with both numbers and the remedy."""
    backend.run(backend.verbs.enqueue(new_jobs(1)))
    raw = sqlite3.connect(path)
    raw.execute("UPDATE standfast_schema SET version = 8")
    raw.commit()
    raw.close()
    later = SqliteBackend(path)
    known = len(load_migrations("jobs", None))
    with pytest.raises(SchemaError, match=rf"newer Standfast \(schema 8, this release knows {known}\): upgrade"):
        later.run(count_states(later.verbs))
    later.close()


def test_a_locked_file_is_unavailable(path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does not let go makes our writes unavailable, not wrong; afterwards they work."""
    monkeypatch.setattr(connect, "BUSY_TIMEOUT", 0.05)
    backend.run(count_states(backend.verbs))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked by another writer"):
        backend.run(backend.verbs.enqueue(new_jobs(1)))
    assert sum(backend.run(count_states(backend.verbs)).values()) == 0
    other.execute("ROLLBACK")
    other.close()
    backend.run(backend.verbs.enqueue(new_jobs(1)))


def test_a_full_database_takes_all_of_a_call_or_nothing(backend: SqliteBackend) -> None:
    """When the file cannot grow, the call fails as full, and nothing of it is stored."""
    backend.run(backend.verbs.pause("x"))
    writer = backend._engine()._writers[Access.WRITE]
    assert writer._connection is not None
    writer._connection.execute("PRAGMA max_page_count = 60")
    with pytest.raises(StoreFullError, match="free disk space"):
        backend.run(backend.verbs.enqueue(new_jobs(1000, b"x" * 1000)))
    assert sum(backend.run(count_states(backend.verbs)).values()) == 0
    backend.run(backend.verbs.enqueue(new_jobs(10)))


def test_a_full_database_in_a_group_fails_only_who_needs_the_room(backend: SqliteBackend) -> None:
    """In a group, those whose verb fits are not told that it failed."""
    backend.run(backend.verbs.pause("x"))
    writer = backend._engine()._writers[Access.WRITE]
    assert writer._connection is not None
    writer._connection.execute("PRAGMA max_page_count = 60")
    small = writer.put_in_line(Entry(backend.verbs.enqueue([NewJob("small", "task", b"")])))
    large = writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs(1000, b"x" * 1000))))
    outcomes = []
    for entry in (small, large):
        try:
            writer.finish(entry)
        except StoreFullError:
            outcomes.append("full")
        else:
            outcomes.append("stored")
    stored = sum(backend.run(count_states(backend.verbs)).values())
    assert (outcomes, stored) in [(["stored", "full"], 1), (["full", "full"], 0)]


UNSTORABLE: list[NewJob] = [
    NewJob("a", "task", b"", priority=2**70),
    NewJob("a", "bad \udcff", b""),
    NewJob("a", "task", cast("bytes", object())),
    NewJob("a", "task", b"", priority=cast("int", 1j)),
]


@pytest.mark.parametrize("job", UNSTORABLE)
def test_values_that_sqlite_cannot_hold_are_refused(backend: SqliteBackend, job: NewJob) -> None:
    """A value that does not fit is refused by an error of its own, and the jobs beside it are not stored."""
    with pytest.raises(ValueNotStoredError, match="cannot store a value"):
        backend.run(backend.verbs.enqueue([NewJob("good", "task", b""), job]))
    assert sum(backend.run(count_states(backend.verbs)).values()) == 0


def test_a_value_over_the_limit_of_sqlite_is_refused(backend: SqliteBackend) -> None:
    """A payload that is too big cannot be stored however often it is tried."""
    backend.run(backend.verbs.pause("x"))
    connection = backend._engine()._writers[Access.WRITE]._connection
    assert connection is not None
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(ValueNotStoredError, match="too big"):
        backend.run(backend.verbs.enqueue(new_jobs(1, b"x" * 2000)))


def test_a_wrong_statement_is_not_taken_for_a_wrong_value(backend: SqliteBackend) -> None:
    """Other mistakes that the module itself finds keep their own error."""

    def steps() -> Steps[None]:
        yield Query("SELECT ?1, ?2", (1,))

    with pytest.raises(StoreError) as caught:
        backend.run(Verb("wrong", Access.READ, steps()))
    assert type(caught.value) is StoreError


FILE_SIZE_LIMIT = """
import resource, sys
from standfast.model.job import NewJob
from standfast.errors import StoreFullError
from standfast.stores.contract import count_states
from standfast.stores.sqlite.store import SqliteBackend
backend = SqliteBackend(sys.argv[1])
backend.run(count_states(backend.verbs))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
accepted = 0
try:
    while True:
        backend.run(backend.verbs.enqueue([NewJob(f"{accepted + n}", "task", b"x" * 500) for n in range(10)]))
        accepted += 10
except StoreFullError as error:
    assert "cannot grow" in str(error), error
assert 0 < accepted < 10_000, accepted
assert sum(backend.run(count_states(backend.verbs)).values()) == accepted
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
backend.run(backend.verbs.enqueue([NewJob("after", "task", b"")]))
assert sum(backend.run(count_states(backend.verbs)).values()) == accepted + 1
backend.close()
"""


def test_a_file_size_limit_is_a_full_store(path: Path) -> None:
    """At a file-size limit what was accepted stays, what failed left nothing, and with room it goes on."""
    subprocess.run([sys.executable, "-W", "error", "-c", FILE_SIZE_LIMIT, path], check=True, timeout=60)


READ_ONLY = """
import os, sys
from standfast.errors import StoreError
from standfast.model.job import NewJob
from standfast.stores.contract import count_states
from standfast.stores.sqlite.store import SqliteBackend
writable = SqliteBackend(sys.argv[2])
writable.run(count_states(writable.verbs))
writable.close()
if os.geteuid() == 0:
    os.setuid(65534)
backend = SqliteBackend(sys.argv[1])
try:
    backend.run(backend.verbs.enqueue([NewJob("a", "task", b"")]))
except StoreError as error:
    print(error)
backend.close()
"""


def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    """Without write permission, the error says that and nothing else goes wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        backend = SqliteBackend(folder / "jobs.db")
        backend.run(count_states(backend.verbs))
        backend.close()
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-W", "error", "-c", READ_ONLY, folder / "jobs.db", tmp_path / "warm-up.db"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        folder.chmod(0o755)
    assert "permission" in done.stdout
    assert done.stdout.count("\n") == 1


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /home/user/shared\\040files nfs4 rw 0 0
/dev/sdb1 /home/user/shared\\040files/local xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/jobs.db", "ext4"),
        ("/home/user/shared files/jobs.db", "nfs4"),
        ("/home/user/shared files/local/jobs.db", "xfs"),
        ("/home/user/shared filesystem/jobs.db", "ext4"),
    ],
)
def test_the_nearest_mount_decides(path: str, kind: str) -> None:
    """The deepest mount point above a file tells its file system."""
    assert file_system_of(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on NFS is refused before anything is created, with what to do instead."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr("standfast.stores.sqlite.connect._MOUNTS", mounts)
    backend = SqliteBackend(tmp_path / "jobs.db")
    with pytest.raises(StoreError, match=r"network file system \(nfs\).*local disk"):
        backend.run(count_states(backend.verbs))
    backend.close()
    assert not (tmp_path / "jobs.db").exists()


def test_without_a_list_of_mounts_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell, the file is taken to be local."""
    monkeypatch.setattr("standfast.stores.sqlite.connect._MOUNTS", tmp_path / "nothing")
    refuse_network_file_system(tmp_path / "jobs.db")
