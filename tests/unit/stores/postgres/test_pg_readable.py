"""What we write about a job that failed is kept, whatever signs are in it."""

import pytest

from standfast.model.crash import DeathKind
from standfast.model.job import Failure
from standfast.model.states import Move, State
from standfast.stores.postgres.rows import readable

ODD = "a\0b \udc80 ü 中 😀"
KEPT = "a␀b \\udc80 ü 中 😀"


@pytest.mark.parametrize(("text", "kept"), [(ODD, KEPT), ("", ""), (None, None), ("plain", "plain")])
def test_signs_that_cannot_be_kept_are_written_out(text, kept):
    """The rest stays as it is, and a second time changes nothing."""
    assert readable(text) == kept
    assert readable(readable(text)) == kept


@pytest.mark.parametrize("move", [Move.RETRY, Move.DIE])
def test_a_failure_is_kept_whatever_it_says(crossing, move):
    """Error, traceback and log are there to read, for a job that is tried again and for a dead one."""
    placed = crossing.place(State.RUNNING)
    crossing.finish(placed.worker, placed.ref, move, failure=Failure("Odd", ODD, f"traceback {ODD}"), log=ODD)
    attempt = crossing.last_attempt(placed.job_id)
    assert (attempt.error, attempt.traceback, attempt.log) == (f"Odd: {KEPT}", f"traceback {KEPT}", KEPT)
    assert crossing.job(placed.job_id).error == f"Odd: {KEPT}"


@pytest.mark.parametrize(("move", "state"), [(Move.BLOCK, State.BLOCKED), (Move.CANCEL, State.CANCELLED)])
def test_a_reason_is_kept_whatever_it_says(crossing, move, state):
    """A handler may give a reason in its own words."""
    placed = crossing.place(State.RUNNING)
    crossing.finish(placed.worker, placed.ref, move, reason=ODD)
    job = crossing.job(placed.job_id)
    assert (job.state, job.reason) == (state, KEPT)


def test_evidence_is_kept_whatever_it_says(crossing):
    """What a crashed process said last may be anything."""
    placed = crossing.place(State.RUNNING, max_attempts=1)
    crossing.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), ODD)
    assert (crossing.job(placed.job_id).state, crossing.job(placed.job_id).error) == (State.DEAD, KEPT)
    assert crossing.last_attempt(placed.job_id).error == KEPT


def test_a_note_on_a_fire_is_kept_whatever_it_says(crossing):
    """Why a schedule was paused, or what a holiday is called, is in the words of people."""
    crossing.change("a", fires=(crossing.new_fire(note=ODD),))
    [fire] = crossing.kept().fires
    assert fire.note == KEPT


def test_a_result_may_be_any_bytes(crossing):
    """Results are bytes, and stay them."""
    placed = crossing.place(State.RUNNING)
    crossing.finish(placed.worker, placed.ref, Move.COMPLETE, result=bytes(range(256)))
    assert crossing.job(placed.job_id).result == bytes(range(256))
