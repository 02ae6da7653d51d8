"""What people decide about jobs: cancel, requeue, discard."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.errors import JobNotFoundError, JobStateError
from standfast.model.crash import DeathKind
from standfast.model.job import Cancellation, Failure, JobAction, Verdict
from standfast.model.states import CLAIMED, ENDINGS, FINAL, MOVES, RETURNS, WAITING, Move, Reason, State
from standfast.stores.contract import Store, cancel_job, change_job
from standfast.stores.values import JobOutcome
from standfast.stores.verb import Verb


class Cancelling:
    """A cancellation is done, asked for, or too late, and the answer says which."""

    @pytest.mark.parametrize("state", sorted(WAITING))
    def test_a_waiting_job_is_cancelled_at_once(self, harness: Harness, state: State) -> None:
        """A job that nobody has ends now and is never claimed."""
        placed = harness.place(state)
        assert harness.run(cancel_job(harness.verbs, placed.job_id)) is Cancellation.CANCELLED
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, Reason.REQUESTED, harness.clock.now())
        harness.clock.advance(7200)
        assert harness.claim(placed.worker) == ()

    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_a_claimed_job_is_asked_to_stop(self, harness: Harness, state: State) -> None:
        """A job that a worker has keeps its state and its claim until that worker answers."""
        placed = harness.place(state)
        assert harness.run(cancel_job(harness.verbs, placed.job_id)) is Cancellation.REQUESTED
        job = harness.job(placed.job_id)
        assert (job.state, job.cancel_requested, job.worker) == (state, True, placed.worker)

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_a_final_job_is_too_late(self, harness: Harness, state: State) -> None:
        """What has ended stays as it ended."""
        placed = harness.place(state)
        before = harness.snapshot()
        assert harness.run(cancel_job(harness.verbs, placed.job_id)) is Cancellation.TOO_LATE
        assert harness.snapshot() == before

    @pytest.mark.parametrize("move", sorted(RETURNS))
    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_a_return_becomes_a_cancellation(self, harness: Harness, state: State, move: Move) -> None:
        """An ending after which the job would wait again ends it instead, and charges nothing."""
        placed = harness.place(state)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        failure = Failure("ValueError", "no")
        verdict = harness.finish(placed.worker, placed.ref, move, delay=timedelta(60), reason="x", failure=failure)
        assert verdict is Verdict.ACCEPTED
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.attempt) == (State.CANCELLED, Reason.REQUESTED, 0)
        assert job.finished_at == harness.clock.now()
        assert harness.last_attempt(placed.job_id).how == Move.CANCEL

    @pytest.mark.parametrize("move", sorted(ENDINGS - RETURNS))
    def test_an_end_of_its_own_stands(self, harness: Harness, move: Move) -> None:
        """A job that ended by itself before it heard of the cancellation ended so, and for its own reason."""
        placed = harness.place(State.RUNNING)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        harness.finish(placed.worker, placed.ref, move, reason="my own")
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (MOVES[move].target, "my own")

    def test_a_handler_gives_its_own_reason(self, harness: Harness) -> None:
        """A job cancelled by its handler says why in the handler's words."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.CANCEL, reason="no longer needed")
        assert harness.job(placed.job_id).reason == "no longer needed"

    def test_an_unknown_job(self, harness: Harness) -> None:
        """There is nothing to cancel without a job."""
        with pytest.raises(JobNotFoundError):
            harness.run(cancel_job(harness.verbs, "unknown"))


def _requeue(verbs: Store, job_id: str) -> Verb[JobOutcome]:
    return change_job(verbs, JobAction.RETRY, job_id)


def _discard(verbs: Store, job_id: str) -> Verb[JobOutcome]:
    return change_job(verbs, JobAction.DISCARD, job_id)


class Reviving:
    """Dead letters wait for a person, who revives or discards them."""

    def test_requeue_gives_a_dead_job_a_new_life(self, harness: Harness) -> None:
        """A requeued job is ready now with nothing charged; its fence and history go on."""
        placed = harness.place(State.DEAD)
        harness.clock.advance(60)
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.error) == (State.READY, 0, 0, None)
        assert (job.run_at, job.finished_at, job.worker) == (harness.clock.now(), None, None)
        assert job.fence == placed.ref.fence
        assert len(harness.history(placed.job_id)) == 1
        assert harness.claim_one(harness.register()).fence == placed.ref.fence + 1

    def test_requeue_forgives_crashes(self, harness: Harness) -> None:
        """A job that died of crashes starts anew with none counted, and still runs alone."""
        placed = harness.place(State.RUNNING, max_attempts=1)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), "signal 9")
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.group) == (State.READY, 0, 0, 1)

    def test_requeue_forgets_an_old_cancellation(self, harness: Harness) -> None:
        """A job that died while asked to cancel is not cancelled by its next retry."""
        placed = harness.place(State.RUNNING)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        harness.finish(placed.worker, placed.ref, Move.DIE)
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        harness.finish(placed.worker, harness.claim_one(placed.worker), Move.RETRY)
        assert harness.job(placed.job_id).state is State.READY

    def test_requeue_makes_a_scheduled_job_due(self, harness: Harness) -> None:
        """A scheduled job asked for now is due now, and keeps what it was charged."""
        placed = harness.place(State.HELD)
        harness.finish(placed.worker, placed.ref, Move.RETRY, delay=timedelta(hours=1))
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        job = harness.job(placed.job_id)
        assert (job.state, job.run_at, job.attempt) == (State.READY, harness.clock.now(), 1)
        assert harness.claimed_ids(placed.worker) == [placed.job_id]

    def test_discard_ends_a_dead_job(self, harness: Harness) -> None:
        """A discarded job is cancelled with that reason and no dead letter any more."""
        placed = harness.place(State.DEAD)
        harness.run(change_job(harness.verbs, JobAction.DISCARD, placed.job_id))
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.DISCARDED)

    @pytest.mark.parametrize("make", [_requeue, _discard])
    def test_an_unknown_job_is_not_found(self, harness: Harness, make: Callable[[Store, str], Verb[None]]) -> None:
        """There is nothing to revive or discard without a job."""
        with pytest.raises(JobNotFoundError, match="unknown"):
            harness.run(make(harness.verbs, "unknown"))

    @pytest.mark.parametrize("make", [_requeue, _discard])
    def test_the_refusal_names_the_state(self, harness: Harness, make: Callable[[Store, str], Verb[None]]) -> None:
        """Who is refused is told in which state the job is."""
        placed = harness.place(State.COMPLETED)
        with pytest.raises(JobStateError, match="completed"):
            harness.run(make(harness.verbs, placed.job_id))
