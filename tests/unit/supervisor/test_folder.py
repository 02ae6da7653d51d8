"""The folder of a supervisor: gone when it ends, removed by the next when it was killed, never while it lives."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from standfast.supervisor.process import PREFIX, private_folder, sweep_abandoned

OWNER = """
import sys
import subprocess
from standfast.supervisor.process import private_folder
with private_folder() as folder:
    (folder.path / "w.notes").write_text("1")
    child = subprocess.Popen(["cat"], pass_fds=[folder.lock]) if "with a child" in sys.argv else None
    print(folder.path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Have folders for temporary files in a place of their own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner(request):
    """Start a process that has a folder; give the process and the name of the folder."""
    words = getattr(request, "param", "")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_it_is_gone_afterwards(place):
    with private_folder() as folder:
        (folder.path / "w.notes").write_text("1")
        assert folder.path.stat().st_mode & 0o077 == 0
    assert list(place.iterdir()) == []


def test_that_of_a_killed_one_is_removed_by_the_next(owner, place):
    process, left = owner
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert os.path.isdir(left)  # noqa: PTH112 - a name that another process gave
    with private_folder() as folder:
        assert list(place.iterdir()) == [folder.path]


def test_that_of_a_living_one_stays(owner, place):
    _, living = owner
    with private_folder() as folder:
        sweep_abandoned()
        assert {str(each) for each in place.iterdir()} == {living, str(folder.path)}


@pytest.mark.parametrize("owner", ["with a child"], indirect=True)
def test_that_of_a_killed_one_stays_while_a_child_of_it_lives(owner, place):
    """Who was left behind may still be writing there; it has the lock as well."""
    process, left = owner
    process.send_signal(signal.SIGKILL)
    process.wait()
    sweep_abandoned()
    assert [str(each) for each in place.iterdir()] == [left]
    process.stdin.close()  # the child ends with it
    opened = os.open(left, os.O_RDONLY)
    fcntl.flock(opened, fcntl.LOCK_EX)  # waits for its end
    os.close(opened)
    sweep_abandoned()
    assert list(place.iterdir()) == []


def test_nothing_else_is_touched(place, tmp_path_factory):
    """Neither what others have called so, nor a link, nor where it leads."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").write_text("1")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (place / f"{PREFIX}file").write_text("1")
    (place / "standfast-1000").mkdir()
    sweep_abandoned()
    assert len(list(place.iterdir())) == 3
    assert (elsewhere / "kept").exists()
