"""Tests made from the table of moves: each move from each state, lawful or not."""

from datetime import timedelta

import pytest

from conformance.harness import KNOWN, Harness, Placed
from standfast.errors import JobStateError
from standfast.model.job import Cancellation, ClaimRef, JobAction, Verdict
from standfast.model.states import ENDINGS, FINAL, MOVES, WAITING, Move, State
from standfast.stores.contract import cancel_job, change_job

LATER = timedelta(minutes=1)

LAWFUL = [(move, state) for move, rule in MOVES.items() for state in State if state in rule.sources]
HURRIED = (Move.REQUEUE, State.SCHEDULED)
"""Not a change of the table's kind: requeueing a scheduled job only moves its time to now."""
UNLAWFUL = [(move, state) for move in Move for state in State if (move, state) not in {*LAWFUL, HURRIED}]


def _claim(harness: Harness, worker: str) -> bool:
    ahead = timedelta(hours=2)
    return bool(harness.claim(worker, adopt=(KNOWN,), look_ahead=ahead, ahead_limit=100))


def _administer(harness: Harness, move: Move, job_id: str) -> bool:
    verb = (
        change_job(harness.verbs, JobAction.RETRY, job_id)
        if move is Move.REQUEUE
        else change_job(harness.verbs, JobAction.DISCARD, job_id)
    )
    try:
        harness.run(verb)
    except JobStateError:
        return False
    return True


def _is_made(harness: Harness, move: Move, placed: Placed, actor: str, ref: ClaimRef) -> bool:
    """Try the move as this actor with this claim; return whether the store made it."""
    if move is Move.CLAIM:
        return _claim(harness, actor)
    if move is Move.START:
        return harness.start(actor, ref) is Verdict.ACCEPTED
    if move in {Move.REQUEUE, Move.DISCARD}:
        return _administer(harness, move, placed.job_id)
    if move is Move.CANCEL and harness.job(placed.job_id).state in WAITING | FINAL:
        return harness.run(cancel_job(harness.verbs, placed.job_id)) is Cancellation.CANCELLED
    delay = LATER if move in {Move.RETRY, Move.SNOOZE} else timedelta()
    return harness.finish(actor, ref, move, delay=delay, reason="said so") is Verdict.ACCEPTED


class Moves:
    """The store applies the table of moves, all of it and nothing else."""

    @pytest.mark.parametrize(("move", "state"), LAWFUL)
    def test_lawful_move(self, harness: Harness, move: Move, state: State) -> None:
        """A lawful move leads where the table says and charges an attempt only where it says so."""
        placed = harness.place(state)
        before = harness.job(placed.job_id)
        assert before.state is state
        assert _is_made(harness, move, placed, placed.worker, placed.ref)
        after = harness.job(placed.job_id)
        assert after.state is MOVES[move].target
        if move is not Move.REQUEUE:
            assert after.attempt == before.attempt + MOVES[move].charges
        assert after.fence == before.fence + (move is Move.CLAIM)
        assert after.crashes == before.crashes

    @pytest.mark.parametrize(("move", "state"), UNLAWFUL)
    def test_unlawful_move(self, harness: Harness, move: Move, state: State) -> None:
        """An unlawful move is refused and changes nothing."""
        placed = harness.place(state)
        intruder = harness.register()
        before = harness.snapshot()
        assert not _is_made(harness, move, placed, intruder, placed.ref)
        next_fence = ClaimRef(placed.job_id, placed.ref.fence + 1)
        if move in ENDINGS:
            assert not _is_made(harness, move, placed, placed.worker, next_fence)
        else:
            assert not _is_made(harness, move, placed, placed.worker, placed.ref)
        assert harness.snapshot() == before

    @pytest.mark.parametrize("state", sorted(WAITING))
    def test_a_claim_is_remembered_with_its_job(self, harness: Harness, state: State) -> None:
        """A claimed job knows its worker, shows no reason to wait any more, and opens an entry in its history."""
        placed = harness.place(state)
        claimer = harness.register()
        assert _claim(harness, claimer)
        job = harness.job(placed.job_id)
        assert (job.worker, job.reason) == (claimer, None)
        attempt = harness.last_attempt(placed.job_id)
        assert (attempt.fence, attempt.worker, attempt.ended_at) == (job.fence, claimer, None)
        assert (attempt.started_at, attempt.how) == (None, None)

    @pytest.mark.parametrize("move", sorted(ENDINGS & {m for m in Move if MOVES[m].target in WAITING}))
    def test_a_job_that_waits_again_belongs_to_nobody(self, harness: Harness, move: Move) -> None:
        """A job that waits again has no worker, no progress and no end."""
        placed = harness.place(State.RUNNING)
        assert _is_made(harness, move, placed, placed.worker, placed.ref)
        job = harness.job(placed.job_id)
        assert (job.worker, job.progress, job.finished_at) == (None, None, None)

    @pytest.mark.parametrize("move", sorted(ENDINGS & {m for m in Move if MOVES[m].target in FINAL}))
    def test_a_final_job_keeps_who_had_it(self, harness: Harness, move: Move) -> None:
        """A final job still tells its last worker and fence, and when it ended."""
        placed = harness.place(State.RUNNING)
        harness.clock.advance(2)
        assert _is_made(harness, move, placed, placed.worker, placed.ref)
        job = harness.job(placed.job_id)
        assert (job.worker, job.fence) == (placed.worker, placed.ref.fence)
        assert job.finished_at == harness.clock.now()
