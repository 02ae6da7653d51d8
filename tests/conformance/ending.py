"""What an ending leaves behind: results, errors, times and the history."""

from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.model.job import Failure, Progress, Verdict
from standfast.model.states import ENDINGS, STARTED_ITS_LAST, Move, State

FAILURE = Failure("ValueError", "not today", "Traceback (most recent call last): ...")


class EndingClaims:
    """Each ending records what it must, and no more."""

    def test_complete_stores_the_result(self, harness: Harness) -> None:
        """A completed job keeps its result byte for byte and no error of earlier attempts."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.RETRY, failure=FAILURE)
        assert harness.job(placed.job_id).error == "ValueError: not today"
        harness.finish(placed.worker, harness.claim_one(placed.worker), Move.COMPLETE, result=b"\x00\xffok")
        job = harness.job(placed.job_id)
        assert (job.state, job.result, job.error) == (State.COMPLETED, b"\x00\xffok", None)

    @pytest.mark.parametrize("move", [Move.RETRY, Move.SNOOZE])
    def test_a_delay_counts_from_the_stores_now(self, harness: Harness, move: Move) -> None:
        """A job that is to run again later waits just as long as was said."""
        placed = harness.place(State.RUNNING)
        harness.clock.advance(7)
        harness.finish(placed.worker, placed.ref, move, delay=timedelta(seconds=30))
        job = harness.job(placed.job_id)
        assert (job.state, job.run_at) == (State.SCHEDULED, harness.clock.now() + timedelta(seconds=30))
        harness.clock.advance(29)
        assert harness.claim(placed.worker) == ()
        harness.clock.advance(1)
        assert harness.claimed_ids(placed.worker) == [placed.job_id]

    @pytest.mark.parametrize("move", [Move.RETRY, Move.SNOOZE])
    def test_without_delay_it_is_ready(self, harness: Harness, move: Move) -> None:
        """A delay of nothing makes the job ready at once."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, move)
        assert harness.job(placed.job_id).state is State.READY

    def test_release_keeps_the_place(self, harness: Harness) -> None:
        """A released job keeps its time, and so its turn."""
        placed = harness.place(State.RUNNING)
        run_at = harness.job(placed.job_id).run_at
        harness.clock.advance(5)
        harness.enqueue()
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        assert harness.job(placed.job_id).run_at == run_at
        assert harness.claimed_ids(placed.worker, 1) == [placed.job_id]

    def test_a_last_chance_is_not_given_back(self, harness: Harness) -> None:
        """A job with one attempt that was marked running never starts again: a release of it is its end."""
        placed = harness.place(State.RUNNING, max_attempts=1)
        assert harness.finish(placed.worker, placed.ref, Move.RELEASE) is Verdict.ACCEPTED
        job, attempt = harness.job(placed.job_id), harness.last_attempt(placed.job_id)
        assert (job.state, job.attempt, job.reason) == (State.DEAD, 1, None)
        assert (job.error, attempt.how, attempt.error) == (STARTED_ITS_LAST, Move.DIE, STARTED_ITS_LAST)

    def test_a_chance_not_taken_is_given_back(self, harness: Harness) -> None:
        """A job with one attempt that never started, or that asks to be run later, keeps its chance."""
        placed = harness.place(State.HELD, max_attempts=1)
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        ref = harness.claim_one(placed.worker)
        harness.start(placed.worker, ref)
        harness.finish(placed.worker, ref, Move.SNOOZE)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt) == (State.READY, 0)

    @pytest.mark.parametrize("move", [Move.RETRY, Move.DIE])
    def test_a_failure_is_kept_with_job_and_history(self, harness: Harness, move: Move) -> None:
        """What went wrong is told by the job, and with its traceback by the history."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, move, failure=FAILURE)
        assert harness.job(placed.job_id).error == "ValueError: not today"
        attempt = harness.last_attempt(placed.job_id)
        assert (attempt.error, attempt.traceback) == ("ValueError: not today", FAILURE.traceback)

    def test_block_says_why(self, harness: Harness) -> None:
        """A blocked job tells its reason and charges nothing."""
        placed = harness.place(State.HELD)
        harness.finish(placed.worker, placed.ref, Move.BLOCK, reason="waits for rain")
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.attempt) == (State.BLOCKED, "waits for rain", 0)

    def test_progress_is_shown_while_it_runs(self, harness: Harness) -> None:
        """A report is seen by anyone; the last one counts."""
        placed = harness.place(State.RUNNING)
        for progress in (Progress(1, 4), Progress(2, 4, "the second: ü"), Progress(2.5, None)):
            harness.run(harness.verbs.progress(placed.worker, [(placed.ref, progress)]))
            assert harness.job(placed.job_id).progress == progress

    def test_progress_does_not_outlive_its_attempt(self, harness: Harness) -> None:
        """A job that waits again starts from nothing."""
        placed = harness.place(State.RUNNING)
        harness.run(harness.verbs.progress(placed.worker, [(placed.ref, Progress(1, 4))]))
        harness.finish(placed.worker, placed.ref, Move.RETRY)
        assert harness.job(placed.job_id).progress is None

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_history_tells_each_claim(self, harness: Harness, move: Move) -> None:
        """A claim's entry says who had it, when it started and ended, and how."""
        placed = harness.place(State.HELD)
        started_at = harness.clock.now()
        harness.clock.advance(1)
        harness.finish(placed.worker, placed.ref, move, started_at=started_at, reason="so")
        (attempt,) = harness.history(placed.job_id)
        assert (attempt.fence, attempt.worker) == (placed.ref.fence, placed.worker)
        assert (attempt.started_at, attempt.ended_at) == (started_at, harness.clock.now())
        assert (attempt.how, attempt.error, attempt.traceback) == (move, None, None)

    def test_history_is_by_fence(self, harness: Harness) -> None:
        """Every claim is there, oldest first, the present one included and without an end."""
        first, second = harness.register(), harness.register()
        job_id = harness.enqueue()
        harness.finish(first, harness.claim_one(first), Move.RETRY, failure=FAILURE)
        harness.finish(second, harness.claim_one(second), Move.SNOOZE)
        harness.start(first, harness.claim_one(first))
        attempts = harness.history(job_id)
        assert [(a.fence, a.worker, a.how) for a in attempts] == [
            (1, first, Move.RETRY),
            (2, second, Move.SNOOZE),
            (3, first, None),
        ]
        assert attempts[2].started_at == harness.clock.now()
        assert attempts[2].ended_at is None

    def test_history_of_nothing(self, harness: Harness) -> None:
        """A job that was never claimed, and one that is unknown, have no history."""
        assert harness.history(harness.enqueue()) == ()
        assert harness.history("unknown") == ()

    def test_a_start_told_by_the_ending_does_not_erase_the_mark(self, harness: Harness) -> None:
        """An ending without a start time leaves the one that was marked."""
        placed = harness.place(State.HELD)
        started_at = harness.clock.now() - timedelta(seconds=1)
        assert harness.start(placed.worker, placed.ref, started_at) is Verdict.ACCEPTED
        harness.finish(placed.worker, placed.ref, Move.COMPLETE)
        assert harness.last_attempt(placed.job_id).started_at == started_at
