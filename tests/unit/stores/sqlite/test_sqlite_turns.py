"""Processes that share a file write in turn: none is kept waiting by another that writes without a pause."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.stores.contract import count_states
from standfast.stores.sqlite import engine
from standfast.stores.sqlite.engine import FairLock
from standfast.stores.sqlite.store import SqliteBackend

WITHOUT_A_PAUSE = """
import sys, threading
from standfast.model.job import NewJob
from standfast.model.ids import new_job_id
from standfast.stores.sqlite.store import SqliteBackend

backend = SqliteBackend(sys.argv[1])

def write():
    while True:
        backend.run(backend.verbs.enqueue([NewJob(new_job_id(), "task", b"", queue="hog")]))

for _ in range(2):
    threading.Thread(target=write, daemon=True).start()
sys.stdin.read()
"""


def test_who_writes_now_and_then_is_not_kept_waiting_by_who_writes_all_the_time(tmp_path: Path) -> None:
    """Most of what the other writes, it writes while this one does not want to."""
    path = tmp_path / "jobs.db"
    backend = SqliteBackend(path)

    def enqueue() -> None:
        backend.run(backend.verbs.enqueue([NewJob(new_job_id(), "task", b"")]))

    def written() -> int:
        return sum(backend.run(count_states(backend.verbs)).values())

    enqueue()
    hog = subprocess.Popen([sys.executable, "-c", WITHOUT_A_PAUSE, path], stdin=subprocess.PIPE)
    try:
        waited, began = 0, written()
        for _ in range(20):
            rested = written() + 50
            while written() < rested:
                assert hog.poll() is None
            asked = written()
            enqueue()
            waited += written() - asked
        assert waited < (written() - began) / 2
    finally:
        hog.kill()
        hog.communicate()
        backend.close()


def is_taken(folder: Path) -> bool:
    """Tell whether somebody has the turn."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_the_turn_is_had_for_as_long_as_one_writes(tmp_path: Path) -> None:
    """Also where there was no folder; and another process that was forked meanwhile does not keep it."""
    folder = tmp_path / "bell"
    with FairLock(folder):
        assert is_taken(folder)
        held, over = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(over)
            os.read(held, 1)
            os._exit(0)
    try:
        assert not is_taken(folder)
    finally:
        os.close(over)
        os.waitpid(child, 0)
        os.close(held)


def test_who_waits_for_the_turn_in_vain_goes_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have stopped with it in hand. It is not asked for again for a while, and then it is."""
    monkeypatch.setattr(engine, "PATIENCE", 0.01)
    monkeypatch.setattr(engine, "LEFT_ALONE", 3600.0)
    own = FairLock(tmp_path)
    with FairLock(tmp_path), own:
        pass
    with own:
        assert not is_taken(tmp_path)
    own._asks_from = 0.0
    with own:
        assert is_taken(tmp_path)


def test_where_there_can_be_no_turns_one_writes_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with FairLock(tmp_path / "file" / "bell"), FairLock(tmp_path / "none" / "bell"):
        pass
