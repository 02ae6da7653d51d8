"""The end of a process's log outlives it: the last lines, in order, without secrets, at little cost."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standfast.durable.runtime import current_attempt
from standfast.model.secrets import Scrub
from standfast.observe.logs.job_log import MOST_RING_LINES, ROOM, LogRing, keep_log_ring, read_ring


@pytest.fixture
def ring(tmp_path: Path) -> LogRing:
    return LogRing(tmp_path / "log")


def say(ring: LogRing, words: str) -> None:
    ring.handle(logging.LogRecord("app", logging.WARNING, __file__, 1, words, (), None))


def test_what_was_logged_last(ring: LogRing, tmp_path: Path) -> None:
    """Lines come back in order, with time, level and logger."""
    assert read_ring(tmp_path / "log") == ""
    for number in range(3):
        say(ring, f"line {number}")
    lines = read_ring(tmp_path / "log").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [f"WARNING app: line {number}" for number in range(3)]


@pytest.mark.parametrize("length", [1, 40, 997])
def test_the_newest_lines_take_the_place_of_the_oldest(ring: LogRing, tmp_path: Path, length: int) -> None:
    """However often the ring has gone round, only whole lines come back, the last of them, without a gap."""
    total = 3 * ROOM // (length + 30)
    for number in range(total):
        say(ring, f"{number} {'é' * length}")
        if number % 97 == 0 or number == total - 1:
            lines = read_ring(tmp_path / "log").splitlines()
            numbers = [int(line.split(": ")[1].split(" ")[0]) for line in lines]
            assert numbers == list(range(number - len(lines) + 1, number + 1))
            assert all(line.endswith("é" * length) for line in lines)
    assert len(lines) == MOST_RING_LINES or sum(len(line.encode()) + 1 for line in lines) > 0.9 * ROOM
    assert (tmp_path / "log").stat().st_size == ROOM + 8


def test_a_death_in_any_way(tmp_path: Path) -> None:
    """Nothing has to be flushed: what was logged is there after SIGKILL."""
    code = (
        "import logging, os, signal, pathlib, sys\n"
        "from standfast.observe.logs.job_log import keep_log_ring\n"
        "keep_log_ring(pathlib.Path(sys.argv[1]), logging.getLogger())\n"
        "logging.getLogger('app').error('the end is near')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "log"], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    assert read_ring(tmp_path / "log").endswith("ERROR app: the end is near")


def test_a_fork_does_not_write_over_its_parent(ring: LogRing, tmp_path: Path) -> None:
    """It has the same file in its memory."""
    say(ring, "before")
    child = os.fork()
    if child == 0:
        say(ring, "of the fork")
        os._exit(0)
    os.waitpid(child, 0)
    assert read_ring(tmp_path / "log").endswith("before")
    say(ring, "after")
    assert [line[-6:].strip() for line in read_ring(tmp_path / "log").splitlines()] == ["before", "after"]


def test_whose_line_it_is_and_no_secret(ring: LogRing, tmp_path: Path) -> None:
    """Lines of an attempt name its job, and what is secret among its arguments is taken out."""

    class Attempt:
        class claim:  # noqa: N801 - stands for a claim
            task, job_id = "send", "job-1"

        scrub = Scrub(["hunter2"])

    token = current_attempt.set(Attempt())
    try:
        say(ring, "logging in with hunter2")
    finally:
        current_attempt.reset(token)
    said = read_ring(tmp_path / "log")
    assert said.startswith("[send job-1] ")
    assert said.endswith("logging in with ••••")


def test_a_record_that_cannot_be_said(ring: LogRing, tmp_path: Path) -> None:
    """Who logs does not suffer for arguments that do not fit, nor for text that is none."""
    ring.handle(logging.LogRecord("app", logging.INFO, __file__, 1, "%d \udce9", ("x",), None))
    assert "INFO app: " in read_ring(tmp_path / "log")


def test_files_that_are_no_ring(tmp_path: Path) -> None:
    """One that is missing, or was being made when its process died, holds nothing."""
    assert read_ring(tmp_path / "missing") == ""
    (tmp_path / "half").write_bytes(b"123")
    assert read_ring(tmp_path / "half") == ""


def test_it_is_heard_on_the_logger(tmp_path: Path) -> None:
    """The handler is the last: others hear a record before it is kept."""
    logger = logging.Logger("own")  # noqa: LOG001 - known to nobody else
    keep_log_ring(tmp_path / "log", logger)
    logger.warning("heard")
    assert read_ring(tmp_path / "log").endswith("heard")
