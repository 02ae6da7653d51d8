"""`standfast backup` and `standfast restore` copy a SQLite store while programs use it."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

from standfast.cli.main import cli
from standfast.errors import StoreUnavailableError
from standfast.model.clock import SystemClock
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.stores.backend import identity_of
from standfast.stores.contract import count_states
from standfast.stores.sqlite import migrate
from standfast.stores.sqlite.migrate import SqliteCopies
from standfast.stores.sqlite.store import SqliteBackend


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path):
    with closing(SqliteBackend(path)) as store:
        enqueue(store, "first")
        yield store


@pytest.fixture
def small_steps(monkeypatch):
    monkeypatch.setattr(migrate, "PAGES", 1)


def enqueue(store, *jobs):
    store.run(store.verbs.enqueue([NewJob(job, "task", b"x" * 2000) for job in jobs]))


def jobs_in(store):
    return sum(store.run(count_states(store.verbs)).values())


def run(path, command, *args, **more):
    return CliRunner().invoke(
        cli, [command, *map(str, args), "--url", f"sqlite:///{path}"], prog_name="standfast", **more
    )


@pytest.mark.usefixtures("small_steps")
def test_a_backup_is_of_one_moment_and_comes_to_its_end_while_others_write(path, store, tmp_path):
    """Whatever is written between two of its steps it leaves out, and does not begin anew for that."""
    enqueue(store, *map(str, range(100)))
    written = []

    def write(done, total):
        written.append((done, total))
        enqueue(store, f"late-{len(written)}")

    with closing(SqliteBackend(path)) as other:
        made = SqliteCopies(str(path), None, SystemClock()).backup(tmp_path / "copy.db", write)
        assert jobs_in(other) == 101 + len(written)
    assert (made[State.READY], len(written) > 10, written[-1][0] == written[-1][1]) == (101, True, True)
    assert sorted(each.name for each in tmp_path.iterdir() if "copy" in each.name) == ["copy.db"]
    with closing(SqliteBackend(tmp_path / "copy.db")) as copy:
        assert (jobs_in(copy), identity_of(copy)) == (101, identity_of(store))


def test_a_restored_backup_is_seen_by_who_has_the_store_open(path, store, tmp_path):
    """In this process and in others, without a word to them, and they write to it."""
    copy = tmp_path / "copy.db"
    assert run(path, "backup", copy).exit_code == 0
    program = (
        "import sys; from standfast.model.job import NewJob; from standfast.stores.sqlite.store import SqliteBackend;"
        "store = SqliteBackend(sys.argv[1]); store.run(store.verbs.pause('mail')); print('open', flush=True);"
        "sys.stdin.readline(); print(sorted(store.run(store.verbs.glance(['first', 'second']))), flush=True);"
        "store.run(store.verbs.enqueue([NewJob('third', 'task', b'')])); store.close()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        enqueue(store, "second")
        done = run(path, "restore", copy, "--yes", "--json")
        assert json.loads(done.stdout) | {"store": ""} == {
            "store": "",
            "file": str(copy),
            "replaced": {"ready": 2},
            "restored": {"ready": 1},
        }
        assert set(store.run(store.verbs.glance(["first", "second"]))) == {"first"}
        assert other.communicate("\n")[0] == "['first']\n"
    assert set(store.run(store.verbs.glance(["first", "second", "third"]))) == {"first", "third"}
    assert [each.name for each in store.run(store.verbs.queues()) if each.paused_at] == []


def test_people_are_asked_and_told_what_is_replaced(path, store, tmp_path):
    """Without an answer nothing is done."""
    copy = tmp_path / "copy.db"
    assert "1 ready job" in run(path, "backup", copy).stdout
    enqueue(store, "second")
    refused = run(path, "restore", copy, input="n\n")
    assert (refused.exit_code, jobs_in(store)) == (1, 2)
    assert all(
        words in refused.stderr for words in ("jobs.db", "2 ready", "1 ready", "copy.db", "nothing was done")
    )
    done = run(path, "restore", copy, input="y\n")
    assert (done.exit_code, jobs_in(store)) == (0, 1)
    assert "2 ready" in done.stdout


@pytest.mark.usefixtures("store")
def test_a_backup_overwrites_nothing(path, tmp_path):
    """Neither a file nor the store itself."""
    for target in (tmp_path / "there.db", path):
        target.touch()
        before = target.read_bytes()
        refused = run(path, "backup", target)
        assert (refused.exit_code, target.read_bytes()) == (2, before)
        assert "is there already" in refused.stderr
    assert "no folder" in run(path, "backup", tmp_path / "none" / "copy.db").stderr


def damaged(path):
    path.write_bytes(b"no database" * 100)


def foreign(path):
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE mine (a)")


def of_other_pages(path):
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA page_size = 8192")
        raw.execute("CREATE TABLE mine (a)")
    with closing(SqliteBackend(path)) as store:
        enqueue(store, "x")


def of_schema(version):
    def make(path):
        with closing(SqliteBackend(path)) as store:
            enqueue(store, "x")
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("UPDATE standfast_schema SET version = version + ?", (version,))
            raw.commit()

    return make


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "there is no file"),
        (damaged, "no sound SQLite database"),
        (foreign, "holds no jobs of Standfast"),
        (of_other_pages, "pages of 8192 bytes"),
        (of_schema(1), "newer Standfast"),
        (of_schema(-1), "standfast migrate --url sqlite:///COPY"),
    ],
)
def test_what_is_no_backup_of_this_release_is_refused(path, store, tmp_path, make, words):
    """And the store is as it was."""
    copy = tmp_path / "copy.db"
    make(copy)
    refused = run(path, "restore", copy, "--yes")
    assert (refused.exit_code != 0, words in refused.stderr) == (True, True), refused.stderr
    assert "itself" in run(path, "restore", path, "--yes").stderr
    assert jobs_in(store) == 1


def test_a_database_of_something_else_is_not_replaced(path, store, tmp_path):
    """It was most likely named by mistake."""
    assert run(path, "backup", tmp_path / "copy.db").exit_code == 0
    foreign(tmp_path / "mine.db")
    before = (tmp_path / "mine.db").read_bytes()
    refused = run(tmp_path / "mine.db", "restore", tmp_path / "copy.db", "--yes")
    assert (refused.exit_code, "holds no jobs of Standfast" in refused.stderr) == (3, True)
    assert (tmp_path / "mine.db").read_bytes() == before
    assert jobs_in(store) == 1


def test_a_backup_is_restored_where_there_is_no_store_yet(path, store, tmp_path):
    """On a new machine, say."""
    assert run(path, "backup", tmp_path / "copy.db").exit_code == 0
    new = tmp_path / "new.db"
    assert "no jobs" in run(new, "restore", tmp_path / "copy.db", "--yes").stdout
    with closing(SqliteBackend(new)) as restored:
        assert jobs_in(restored) == jobs_in(store)


def test_a_restore_that_is_interrupted_changes_nothing(path, store, tmp_path, monkeypatch):
    """It is one transaction; while another writes, it waits no longer than any call."""
    copy = tmp_path / "copy.db"
    assert run(path, "backup", copy).exit_code == 0
    enqueue(store, *map(str, range(100)))
    monkeypatch.setattr(migrate, "PAGES", 1)

    def interrupt(done, _total):
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SqliteCopies(str(path), None, SystemClock()).restore(copy, interrupt)
    assert jobs_in(store) == 101
    monkeypatch.setattr(migrate, "BUSY_TIMEOUT", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked by another writer"):
            SqliteCopies(str(path), None, SystemClock()).restore(copy, lambda *_: None)
    assert jobs_in(store) == 101


@pytest.mark.parametrize(
    ("url", "tools"),
    [
        ("postgresql://me:hunter2@db/shop", "pg_dump"),
        ("redis://:hunter2@cache/0", "RDB"),
        ("memory://", "end with it"),
    ],
)
@pytest.mark.parametrize("command", ["backup", "restore"])
def test_other_stores_have_tools_of_their_own(tmp_path, url, tools, command):
    """The error names them, and nobody is asked to connect."""
    refused = CliRunner().invoke(cli, [command, str(tmp_path / "copy.db"), "--url", url], prog_name="standfast")
    assert (refused.exit_code, tools in refused.stderr, "hunter2" in refused.stderr) == (2, True, False)
