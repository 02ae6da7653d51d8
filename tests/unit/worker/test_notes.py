"""What a child writes down is what its supervisor reads, whatever happens to the child."""

from pathlib import Path

import pytest

from holdfast.core.job import ClaimRef
from holdfast.worker import notes as notes_module
from holdfast.worker.notes import FileLog, FileLogReader, Noted, Notes, NotesReader

A, B, C = (ClaimRef(f"0191-{name}", fence) for name, fence in (("a", 1), ("b", 2), ("c", 3)))


@pytest.fixture
def log(tmp_path: Path):
    log = FileLog(tmp_path / "child.notes")
    yield log
    log.close()


@pytest.fixture
def pen(log: FileLog) -> Notes:
    return Notes(log)


@pytest.fixture
def eye(tmp_path: Path) -> NotesReader:
    return NotesReader(FileLogReader(tmp_path / "child.notes"))


def test_an_answered_call_is_closed_and_its_claims_are_held(pen: Notes, eye: NotesReader) -> None:
    """The beat can name the claims of every call that was answered."""
    pen.answered(1, [A, B])
    assert eye.read() == Noted(1, frozenset({A, B}))


def test_a_call_given_up_is_closed_without_claims(pen: Notes, eye: NotesReader) -> None:
    """What a given-up call may have committed is not named, so that it is released."""
    pen.answered(1, [A])
    pen.given_up(2)
    assert eye.read() == Noted(2, frozenset({A}))


def test_only_started_and_not_returned_handlers_are_running(pen: Notes, eye: NotesReader) -> None:
    """A crash charges nothing that was merely held, nor what had returned and waited to be sent."""
    pen.answered(1, [A, B, C])
    pen.started(A)
    pen.started(B)
    pen.returned(B)
    noted = eye.read()
    assert noted.running == {A}
    assert noted.held == {A, B, C}


def test_an_ending_takes_the_claim_out_of_hand(pen: Notes, eye: NotesReader) -> None:
    """What the store took is ours no more."""
    pen.answered(1, [A, B])
    assert eye.read().held == {A, B}
    pen.ended([A])
    assert eye.read().held == {B}


def test_a_torn_line_waits_for_its_end(log: FileLog, eye: NotesReader) -> None:
    """A line that is half written when the supervisor looks is neither lost nor misread."""
    log.append(b"C 4 0191-a:1\nC 5 0191-b")
    assert eye.read() == Noted(4, frozenset({A}))
    log.append(b":2\n")
    assert eye.read() == Noted(5, frozenset({A, B}))


@pytest.mark.parametrize("between", [1, 2, 3, 4])
def test_compaction_loses_nothing(pen: Notes, eye: NotesReader, monkeypatch, between: int) -> None:
    """Started anew any number of times between two looks, the notes say the same."""
    pen.answered(1, [A, B])
    pen.started(A)
    assert eye.read().running == {A}
    monkeypatch.setattr(notes_module, "COMPACT_AT", 0)
    for call in range(2, 2 + between):
        pen.given_up(call)
    noted = eye.read()
    assert noted == Noted(1 + between, frozenset({A, B}), frozenset({A}))


def test_compaction_bounds_the_file(pen: Notes, tmp_path: Path, monkeypatch) -> None:
    """A worker that has run for a year has small notes."""
    monkeypatch.setattr(notes_module, "COMPACT_AT", 4_000)
    for call in range(1, 2_000):
        pen.answered(call, [A])
        pen.ended([A])
    assert (tmp_path / "child.notes").stat().st_size < 8_000


def test_no_notes_yet(tmp_path: Path) -> None:
    """A child that died before it wrote anything held nothing."""
    assert NotesReader(FileLogReader(tmp_path / "none")).read() == Noted()
