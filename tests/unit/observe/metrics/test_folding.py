"""To take in what ended processes have counted loses nothing and counts nothing twice, whoever dies at any step."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from counting import Counter, completed, files

from standfast.observe.metrics import shared
from standfast.observe.metrics.shared import SharedFolder, fold

HERE = Path(__file__).parent

DIES = """
import os, signal, sys
from pathlib import Path
from standfast.observe.metrics.shared import fold

left = int(sys.argv[2])

def deadly(name):
    real = getattr(os, name)
    def call(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*args, **kwargs)
    setattr(os, name, call)

for name in ("open", "close", "fdopen", "fsync", "rename", "unlink", "listdir", "scandir"):
    deadly(name)
fold(Path(sys.argv[1]))
"""


def test_a_fold_may_die_at_each_step(tmp_path):
    """After each, readers see the same sum, the next fold finishes it, and none is left behind."""
    began = tmp_path / "began"
    for number in (1, 2, 4):
        Counter(began).count(number).count(number, "pack")
    for _ in range(2):
        Counter(began).count(8).end()  # the second takes in the first
    dead = {"send": 23, "pack": 7}
    steps, ended = 0, -signal.SIGKILL
    while ended == -signal.SIGKILL:
        folder = shutil.copytree(began, tmp_path / f"step-{steps}")  # in the copy nobody has a lock
        ended = subprocess.run([sys.executable, "-c", DIES, folder, str(steps)], check=False).returncode
        assert completed(folder) == dead, steps
        counter = Counter(folder).count(100)
        assert (files(folder), completed(folder)) == (1, {**dead, "send": 123}), steps
        counter.end()
        fold(folder)
        assert (files(folder), completed(folder)) == (0, {**dead, "send": 123}), steps
        shutil.rmtree(folder)
        steps += 1
    assert ended == 0
    assert steps > 10


BEGINS_AND_ENDS = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from counting import Counter
from standfast.observe.metrics.shared import fold

folder, lives = Path(sys.argv[1]), int(sys.argv[2])
for life in range(lives):
    counter = Counter(folder)
    for _ in range(10):
        counter.count()
    counter.end()
    fold(folder)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_many_fold_at_once_while_many_read(tmp_path):
    """Four begin, count, end and fold, over and over: no reader sees less than before, and the end is the sum."""
    command = [sys.executable, "-c", BEGINS_AND_ENDS, str(tmp_path), "25", str(HERE)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    seen = [0]
    while any(process.poll() is None for process in processes):
        seen.append(completed(tmp_path).get("send", 0))
        assert seen[-1] >= seen[-2]
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 4
    assert len(set(seen)) > 10, "it was looked at meanwhile"
    assert completed(tmp_path) == {"send": 4 * 25 * 10}
    fold(tmp_path)
    assert (files(tmp_path), completed(tmp_path)) == (0, {"send": 4 * 25 * 10})


def test_a_reader_between_two_steps_of_a_fold_sees_all(tmp_path, monkeypatch):
    """Whatever it has read when a file is taken in and removed, it reads again."""
    Counter(tmp_path).count(3).end()
    Counter(tmp_path).count(4).end()
    live = Counter(tmp_path).count(5)
    real, folded = os.open, []

    def open_and_fold(path, *args):
        if not folded and Path(path).suffix == ".counts":
            folded.append(path)
            monkeypatch.setattr(os, "open", real)
            fold(tmp_path)
        return real(path, *args)

    monkeypatch.setattr(os, "open", open_and_fold)
    assert completed(tmp_path) == {"send": 12}
    assert folded
    assert files(tmp_path) == 1
    live.count(1)
    assert completed(tmp_path) == {"send": 13}


def test_a_file_that_is_taken_in_before_it_is_locked_is_not_counted_in(tmp_path, monkeypatch):
    """Between its making and its lock another may fold: then whoever begins makes another."""
    real, rounds = shared.try_lock, []

    def fold_first(file):
        if len(rounds) < 3:
            rounds.append(file)
            fold(tmp_path)
        return real(file)

    monkeypatch.setattr(shared, "try_lock", fold_first)
    counter = Counter(tmp_path).count(3)
    assert len(rounds) == 3
    fold(tmp_path)
    counter.count(4)
    assert (files(tmp_path), completed(tmp_path)) == (1, {"send": 7})


def test_a_file_that_cannot_be_removed_is_not_counted_twice(tmp_path, monkeypatch):
    Counter(tmp_path).count(3).end()

    def refuse(*_args, **_more):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        for _ in range(2):
            fold(tmp_path)
            assert (files(tmp_path), completed(tmp_path)) == (1, {"send": 3})
        Counter(tmp_path).count(4).end()
        fold(tmp_path)
        assert (files(tmp_path), completed(tmp_path)) == (2, {"send": 7})
    fold(tmp_path)
    assert (files(tmp_path), completed(tmp_path)) == (0, {"send": 7})


def test_one_folds_at_a_time(tmp_path):
    """Who finds another at it goes on, and readers never wait."""
    Counter(tmp_path).count(3).end()
    opened = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        fold(tmp_path)
        assert (files(tmp_path), completed(tmp_path)) == (1, {"send": 3})
        Counter(tmp_path).count(1)
        assert completed(tmp_path) == {"send": 4}
    finally:
        os.close(opened)
    fold(tmp_path)
    assert completed(tmp_path) == {"send": 4}


@pytest.mark.parametrize("value", [2**64 - 1, 7])
def test_sums_may_be_larger_than_a_cell(tmp_path, value):
    """A sum that was told is not cut when it is kept."""
    for _ in range(3):
        counter = Counter(tmp_path)
        counter.meter.values[counter.meter.row_of("mail", "send")] = value
        assert completed(tmp_path)["send"] % value == 0
        counter.end()
    fold(tmp_path)
    assert SharedFolder(tmp_path).sums().rows["jobs", "mail", "send"][0] == 3 * value
