"""What an attempt leaves for its readers: results, which may be kept for a time only, and the end of its log."""

from datetime import timedelta

import pytest

from conformance.harness import Harness, Placed
from standfast.model.job import Job
from standfast.model.states import ENDINGS, Move, State
from standfast.stores.contract import cancel_job
from standfast.stores.values import JobFilter

MINUTE = timedelta(minutes=1)


def _complete(harness: Harness, keep: timedelta | None, result: bytes | None = b"42") -> str:
    placed = harness.place(State.RUNNING)
    harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=result, keep_result=keep)
    return placed.job_id


def _views(harness: Harness, job_id: str) -> list[Job]:
    (listed,) = (job for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs if job.id == job_id)
    situation = harness.run(harness.verbs.situation(job_id))
    assert situation is not None
    return [harness.job(job_id), listed, situation.job]


class KeepingResults:
    """A result is there for as long as was said, and then nobody sees it."""

    def test_a_result_has_its_time(self, harness: Harness) -> None:
        """From its time on every view is without the result, and still says until when it was there."""
        job_id = _complete(harness, MINUTE)
        until = harness.clock.now() + MINUTE
        harness.clock.advance(59.999)
        assert {(job.result, job.result_until) for job in _views(harness, job_id)} == {(b"42", until)}
        harness.clock.advance(0.001)
        assert {(job.result, job.result_until) for job in _views(harness, job_id)} == {(None, until)}
        assert harness.job(job_id).state is State.COMPLETED

    def test_a_result_without_a_time_stays(self, harness: Harness) -> None:
        """Unless a time was given, the result is kept as long as the job."""
        job_id = _complete(harness, None)
        harness.clock.advance(10**8)
        assert harness.run(harness.verbs.forget_results(100)) == 0
        job = harness.job(job_id)
        assert (job.result, job.result_until) == (b"42", None)

    def test_the_time_counts_from_the_completion(self, harness: Harness) -> None:
        """However long a job waited and ran, its result is kept from its end on."""
        placed = harness.place(State.RUNNING)
        harness.clock.advance(500)
        harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=b"1", keep_result=MINUTE)
        assert harness.job(placed.job_id).result_until == harness.clock.now() + MINUTE

    @pytest.mark.parametrize("move", sorted(ENDINGS - {Move.COMPLETE}))
    def test_only_a_completion_has_a_result_to_keep(self, harness: Harness, move: Move) -> None:
        """Other endings do not speak of results."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, move, reason="so", keep_result=MINUTE)
        assert harness.job(placed.job_id).result_until is None

    def test_sweep_forgets_what_is_over(self, harness: Harness) -> None:
        """A sweep drops results whose time is over, each once, at most as many as asked, and no other."""
        over = [_complete(harness, MINUTE) for _ in range(3)]
        kept, later = _complete(harness, None), _complete(harness, 2 * MINUTE)
        assert harness.run(harness.verbs.forget_results(100)) == 0
        harness.clock.advance(60)
        before = harness.snapshot()
        assert [harness.run(harness.verbs.forget_results(2)) for _ in range(3)] == [2, 1, 0]
        assert harness.snapshot() == before
        assert [harness.job(job_id).result for job_id in (kept, later)] == [b"42", b"42"]
        assert [harness.job(job_id).result for job_id in over] == [None] * 3
        harness.clock.advance(60)
        assert harness.run(harness.verbs.forget_results(100)) == 1

    def test_a_swept_result_is_gone_for_good(self, harness: Harness) -> None:
        """A clock that is set back brings a hidden result to light again, but not one that was swept."""
        hidden = _complete(harness, MINUTE)
        harness.clock.advance(60)
        harness.clock.step_wall(-30)
        assert harness.job(hidden).result == b"42"
        harness.clock.step_wall(30)
        assert harness.run(harness.verbs.forget_results(1)) == 1
        harness.clock.step_wall(-30)
        assert harness.job(hidden).result is None

    def test_nothing_to_forget(self, harness: Harness) -> None:
        """A completion without a result is not swept, and a limit of nothing sweeps nothing."""
        _complete(harness, MINUTE, None)
        harness.clock.advance(60)
        assert harness.run(harness.verbs.forget_results(10)) == 0
        _complete(harness, timedelta())
        assert harness.run(harness.verbs.forget_results(0)) == 0
        assert harness.run(harness.verbs.forget_results(10)) == 1


def _log(harness: Harness, placed: Placed, move: Move, log: str | None) -> None:
    harness.finish(placed.worker, placed.ref, move, reason="so", log=log)


class KeepingLogs:
    """The history shows the end of what each attempt logged."""

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_every_ending_brings_its_log(self, harness: Harness, move: Move) -> None:
        """However an attempt ended, what it logged is in the history."""
        placed = harness.place(State.RUNNING)
        _log(harness, placed, move, "first\nlast ☂")
        assert harness.last_attempt(placed.job_id).log == "first\nlast ☂"

    def test_a_cancelled_return_brings_its_log(self, harness: Harness) -> None:
        """An ending that was turned into a cancellation logged all the same."""
        placed = harness.place(State.RUNNING)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        _log(harness, placed, Move.RETRY, "was here")
        assert harness.last_attempt(placed.job_id).log == "was here"

    def test_each_attempt_has_its_own(self, harness: Harness) -> None:
        """Logs are kept by fence; an attempt that logged nothing, or has not ended, has none."""
        placed = harness.place(State.RUNNING)
        assert harness.last_attempt(placed.job_id).log is None
        for log in ("one", None, "three"):
            _log(harness, placed, Move.RETRY, log)
            placed = Placed(placed.job_id, placed.worker, harness.claim_one(placed.worker))
        assert [attempt.log for attempt in harness.history(placed.job_id)] == ["one", None, "three", None]
