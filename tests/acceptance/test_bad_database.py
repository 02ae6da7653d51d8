"""A database that cannot be used is told in one line that says what to do, and nothing is half-written."""

import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from shopfloor import Shop, assert_one_line, environment, eventually, run

STORE = 3

NO_PRIVILEGE = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0):
    sys.exit("cannot give up the privilege of root to write anything")
os.execv(sys.argv[1], sys.argv[1:])
"""
AS_ANYONE = (sys.executable, "-c", NO_PRIVILEGE)
"""Run a command for whom file permissions count, root or not."""

NO_ROOM = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.argv[2], sys.argv[2:])
"""

ENQUEUE = """
import sys
sys.path.insert(0, sys.argv[1])
from standfast import StandfastError, Standfast
from shop import app, pack
app.close()
try:
    pack.enqueue(order=1)
except StandfastError as error:
    print(type(error).__name__, error, sep=": ")
"""


def with_room_for(size):
    """Return what runs a command whose files cannot grow beyond a size."""
    return (sys.executable, "-c", NO_ROOM, str(size))


def enqueue(shop, url, through=()):
    """Enqueue through the API in a process of its own, and return what it said."""
    command = [*through, sys.executable, "-W", "error", "-c", ENQUEUE, str(shop.folder)]
    done = subprocess.run(
        command, env=environment(STANDFAST_URL=url), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout


def assert_refused_everywhere(shop, path, words, *, through=(), listed=None):
    """API, worker and command refuse the database in one line each that has these words."""
    url = f"sqlite:///{path}"
    said = enqueue(shop, url, through)
    assert said.count("\n") == 1, said
    assert all(word in said for word in words), said
    worker = shop.start("--url", url, through=through)
    assert worker.wait() == STORE, worker.words
    assert_one_line(worker.words, *words)
    listing = run("jobs", "list", "--url", url, through=through)
    assert (listing.returncode, listing.stdout) == (STORE, "")
    assert_one_line(listing.stderr, *(listed or words))


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.fixture
def shop(tmp_path):
    with Shop(tmp_path / "shop") as made:
        yield made


def test_bad_database_missing_folder(shop, tmp_path):
    """A path in a folder that does not exist is refused with the command that makes it, and is not made."""
    path = tmp_path / "not" / "there" / "jobs.db"
    assert_refused_everywhere(
        shop, path, [f"mkdir -p {path.parent}"], listed=[f"there is no database {path}", "--url"]
    )
    assert not path.parent.parent.exists()
    path.parent.mkdir(parents=True)
    assert enqueue(shop, f"sqlite:///{path}") == ""


def test_bad_database_a_folder(shop, tmp_path):
    """A path that is a folder is refused in so many words."""
    path = tmp_path / "folder"
    path.mkdir()
    assert_refused_everywhere(shop, path, ["is a folder"], listed=["there is no database"])
    assert list(path.iterdir()) == []


def test_bad_database_other_file(shop, tmp_path):
    """A file that is not a database is refused and not touched, and nothing appears beside it."""
    folder = tmp_path / "docs"
    folder.mkdir()
    path = folder / "diary.txt"
    path.write_text("dear diary, " * 1000)
    before = contents(folder)
    assert_refused_everywhere(shop, path, [str(path), "no sound SQLite database", "name another file"])
    assert contents(folder) == before


def test_bad_database_newer_schema(shop):
    """A database of a newer release is refused with the remedy, and is the same afterwards."""
    handle = shop.tasks.pack.enqueue(order=1)
    [(ours,)] = shop.sql("SELECT version FROM standfast_schema")
    shop.sql("UPDATE standfast_schema SET version = 99")
    before = dump(shop.database)
    assert_refused_everywhere(shop, shop.database, ["newer Standfast", "schema 99", "upgrade standfast"])
    assert dump(shop.database) == before
    shop.sql(f"UPDATE standfast_schema SET version = {ours}")
    shop.drain()
    assert handle.result(timeout=0) == 1


def test_bad_database_read_only(shop):
    """A file that may not be written is refused with the remedy; with the permission back it works."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/jobs.db"
        assert enqueue(shop, url) == ""
        before = dump(folder / "jobs.db")
        change_modes(folder, 0o555, 0o444)
        try:
            assert_refused_everywhere(shop, folder / "jobs.db", ["permission", "jobs.db"], through=AS_ANYONE)
        finally:
            change_modes(folder, 0o755, 0o644)
        assert dump(folder / "jobs.db") == before
        assert enqueue(shop, url, AS_ANYONE) == ""
        worker = shop.start("--url", url, "--drain", through=AS_ANYONE)
        assert worker.wait() == 0, worker.words
        assert len(shop.ledger()) == 2


def change_modes(folder, mode, files):
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(files)
        else:
            file.chmod(mode)
    folder.chmod(mode)


@pytest.mark.parametrize("size", [0, 4096, 40_000])
def test_bad_database_no_room_for_a_new_one(shop, tmp_path, size):
    """Without room for a new database the enqueue is refused with the remedy; with room the same path works."""
    path = tmp_path / "new.db"
    said = enqueue(shop, f"sqlite:///{path}", with_room_for(size))
    assert said.startswith("StoreFullError: "), said
    assert "free disk space" in said
    assert said.count("\n") == 1
    assert enqueue(shop, f"sqlite:///{path}") == ""
    assert shop.sql("SELECT state FROM standfast_job", file=path) == [("ready",)]


def test_bad_database_full(shop):
    """A full disk refuses what writes, in one line and with nothing half-written, and still lets people look."""
    fill(shop)
    before = dump(shop.database)
    cramped = with_room_for(40_000)
    said = enqueue(shop, shop.url, cramped)
    assert said.startswith("StoreFullError: "), said
    assert said.count("\n") == 1
    listing = shop.standfast("jobs", "list", through=cramped)
    assert listing.returncode == 0, listing.stderr
    paused = shop.standfast("queues", "pause", "mail", through=cramped)
    assert paused.returncode == STORE
    assert_one_line(paused.stderr, "cannot grow", "free disk space")
    assert dump(shop.database) == before
    assert enqueue(shop, shop.url) == ""


def test_bad_database_full_when_the_worker_starts(shop):
    """A worker that starts on a full disk says so and waits; it can be stopped, and it works when room is back."""
    fill(shop)
    handle = shop.tasks.pack.enqueue(order=1)
    worker = shop.start(through=with_room_for(40_000))
    eventually(lambda: "cannot grow" in worker.words, "it says so")
    assert "Traceback" not in worker.words
    assert worker.stop(within=30) == 0
    waiting = shop.start(through=with_room_for(40_000))
    eventually(lambda: "cannot grow" in waiting.words, "it says so")
    give_room(waiting, resource.RLIM_INFINITY)
    assert handle.result(timeout=30) == 1
    assert waiting.stop() == 0


def test_bad_database_full_while_a_worker_runs(shop):
    """A disk that fills up under a worker loses nothing: what ended is recorded, once, when room is back."""
    worker = shop.worker()
    running = [shop.tasks.guard.enqueue(until="end"), shop.tasks.guard_by_hand.enqueue(until="end")]
    for handle in running:
        shop.become(handle, "running")
    fill(shop)
    give_room(worker, 40_000)
    shop.put("end")
    eventually(lambda: len(shop.ledger(what="ended")) == 2, "both have ended")
    more = [shop.tasks.pack.enqueue(order=number) for number in range(10)]
    eventually(lambda: "cannot grow" in worker.words, "the worker says so")
    assert {handle.status() for handle in running} == {"running"}
    assert worker.process.poll() is None

    give_room(worker, resource.RLIM_INFINITY)

    assert [handle.result(timeout=60) for handle in running] == ["end", "end"]
    assert [handle.result(timeout=60) for handle in more] == list(range(10))
    assert {(job.attempt, job.fence) for job in map(shop.job, running)} == {(0, 1)}
    assert len(shop.ledger()) == 14
    assert "Traceback" not in worker.words
    assert worker.stop() == 0


def fill(shop):
    """Write more than fits into the room that is then left; the log of the database stays that long."""
    shop.app.call(shop.app.verbs.pause("attic"))
    shop.tasks.read_aloud.options(queue="attic").enqueue_many({"text": "x" * 5000} for _ in range(40))
    assert Path(f"{shop.database}-wal").stat().st_size > 100_000


def give_room(worker, size):
    """Change how large the files of a running worker may grow."""
    for pid in (worker.pid, *worker.children):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_bad_database_gone_and_back(shop):
    """A worker whose database cannot be locked for a while goes on when it can be, with nothing lost or doubled."""
    worker = shop.worker()
    running = shop.tasks.guard.enqueue(until="end")
    shop.become(running, "running")
    with closing(sqlite3.connect(shop.database, isolation_level=None)) as greedy:
        greedy.execute("BEGIN IMMEDIATE")
        shop.put("end")
        eventually(lambda: "did not answer" in worker.words, "the worker says so")
        greedy.execute("ROLLBACK")
    assert running.result(timeout=60) == "end"
    assert [line["what"] for line in shop.ledger(running)] == ["began", "ended"]
    worker.process.send_signal(signal.SIGINT)
    assert worker.wait() == 0
