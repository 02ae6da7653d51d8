"""What a child writes down is what its supervisor reads, whatever happens to the child."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standfast.model.job import ClaimRef
from standfast.worker import claim_log as notes_module
from standfast.worker.claim_log import (
    ROOM,
    ClaimLog,
    ClaimLogFile,
    ClaimLogFileReader,
    LoggedClaims,
    read_claim_log,
)

A, B, C = (ClaimRef(f"0191-{name}", fence) for name, fence in (("a", 1), ("b", 2), ("c", 3)))


@pytest.fixture
def log(tmp_path: Path):
    log = ClaimLogFile(tmp_path / "child.notes")
    yield log
    log.close()


@pytest.fixture
def pen(log: ClaimLogFile) -> ClaimLog:
    return ClaimLog(log)


@pytest.fixture
def eye(tmp_path: Path) -> ClaimLogFileReader:
    return ClaimLogFileReader(tmp_path / "child.notes")


def test_an_answered_call_is_closed_and_its_claims_are_held(pen: ClaimLog, eye: ClaimLogFileReader) -> None:
    """The beat can name the claims of every call that was answered."""
    pen.answered(1, [A, B])
    assert read_claim_log(eye) == LoggedClaims(1, frozenset({A, B}))


def test_a_call_given_up_is_closed_without_claims(pen: ClaimLog, eye: ClaimLogFileReader) -> None:
    """What a given-up call may have committed is not named, so that it is released."""
    pen.answered(1, [A])
    pen.given_up(2)
    assert read_claim_log(eye) == LoggedClaims(2, frozenset({A}))


def test_only_started_and_not_returned_handlers_are_running(pen: ClaimLog, eye: ClaimLogFileReader) -> None:
    """A crash charges nothing that was merely held, nor what had returned and waited to be sent."""
    pen.answered(1, [A, B, C])
    pen.started(A)
    pen.started(B)
    pen.returned(B)
    noted = read_claim_log(eye)
    assert noted.running == {A}
    assert noted.held == {A, B, C}


def test_an_ending_takes_the_claim_out_of_hand(pen: ClaimLog, eye: ClaimLogFileReader) -> None:
    """What the store took is ours no more."""
    pen.answered(1, [A, B])
    assert read_claim_log(eye).held == {A, B}
    pen.ended([A])
    assert read_claim_log(eye).held == {B}


def test_an_addition_that_was_not_made_known_is_not_there(
    tmp_path: Path, pen: ClaimLog, eye: ClaimLogFileReader
) -> None:
    """A child that dies in the middle of a note has noted nothing."""
    pen.answered(1, [A])
    with (tmp_path / "child.notes").open("r+b") as file:
        file.seek(8 + len("1 .0191-a:1\n"))
        file.write(b"2 .0191-b")
    assert read_claim_log(eye) == LoggedClaims(1, frozenset({A}))


@pytest.mark.parametrize("between", [1, 2, 3, 4])
def test_compaction_loses_nothing(pen: ClaimLog, eye: ClaimLogFileReader, monkeypatch, between: int) -> None:
    """Started anew any number of times between two looks, the notes say the same."""
    pen.answered(1, [A, B])
    pen.started(A)
    assert read_claim_log(eye).running == {A}
    monkeypatch.setattr(notes_module, "COMPACT_AT", 0)
    for call in range(2, 2 + between):
        pen.given_up(call)
    noted = read_claim_log(eye)
    assert noted == LoggedClaims(1 + between, frozenset({A, B}), frozenset({A}))


def test_compaction_bounds_the_file(pen: ClaimLog, tmp_path: Path, monkeypatch) -> None:
    """A worker that has run for a year has small notes."""
    monkeypatch.setattr(notes_module, "COMPACT_AT", ROOM)
    for call in range(1, 20_000):
        pen.answered(call, [A])
        pen.ended([A])
    assert (tmp_path / "child.notes").stat().st_size <= 2 * ROOM


def test_a_full_disk_makes_the_notes_shorter(pen: ClaimLog, eye: ClaimLogFileReader) -> None:
    """Where the file cannot grow, what still counts is noted in the room there is."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * ROOM, before[1]))
    try:
        for call in range(1, 10_000):
            pen.answered(call, [A])
            pen.ended([A])
        pen.answered(10_000, [B])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read_claim_log(eye) == LoggedClaims(10_000, frozenset({B}))


def test_an_addition_beyond_the_room_makes_room(log: ClaimLogFile, eye: ClaimLogFileReader) -> None:
    """However much is claimed at once, it is noted."""
    many = [ClaimRef(f"0191-{number:032}", 1) for number in range(ROOM // 40)]
    pen = ClaimLog(log)
    pen.answered(1, [A])
    pen.started(A)
    pen.answered(2, many)
    pen.started(many[-1])
    pen.given_up(3)
    assert read_claim_log(eye) == LoggedClaims(3, frozenset({A, *many}), frozenset({A, many[-1]}))


def test_what_was_noted_outlives_a_killed_writer(tmp_path: Path, eye: ClaimLogFileReader) -> None:
    """A process that is killed right after a note has left it to its supervisor."""
    code = (
        "import os, signal, sys, pathlib; from standfast.worker.claim_log import ClaimLogFile;"
        "ClaimLogFile(pathlib.Path(sys.argv[1])).append(b'7 .0191-a:1\\n'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "child.notes")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert read_claim_log(eye) == LoggedClaims(7, frozenset({A}))


def test_a_reader_beside_a_busy_writer_never_loses_a_claim(tmp_path: Path, eye: ClaimLogFileReader) -> None:
    """However often the supervisor looks while the child writes, what is held stays held."""
    code = (
        "import pathlib, sys; from standfast.model.job import ClaimRef;"
        "from standfast.worker.claim_log import ClaimLogFile; from standfast.worker.claim_log import ClaimLog;"
        "pen = ClaimLog(ClaimLogFile(pathlib.Path(sys.argv[1]))); long = ClaimRef('long', 1); pen.answered(1, [long]);"
        "pen.started(long); print(flush=True)\n"
        "for call in range(2, 10**9):\n"
        "    ref = ClaimRef(f'short-{call}', 1); pen.answered(call, [ref]); pen.started(ref); pen.ended([ref])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "child.notes")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            long = ClaimRef("long", 1)
            for _ in range(1_500):
                noted = read_claim_log(eye)
                assert long in noted.held
                assert long in noted.running
        finally:
            writer.kill()
    assert long in read_claim_log(eye).running


def test_no_notes_yet(tmp_path: Path) -> None:
    """A child that died before it wrote anything held nothing."""
    assert read_claim_log(ClaimLogFileReader(tmp_path / "none")) == LoggedClaims()
