"""Jobs that should start for the first time within some time: the store tells, the worker decides."""

from datetime import UTC, datetime, timedelta

import pytest

from conformance.harness import Harness
from standfast.model.clock import LATEST
from standfast.model.job import JobAction, OnLate
from standfast.model.states import Move, Reason, State
from standfast.stores.contract import change_job
from standfast.stores.values import JobFilter


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


class LateStarts:
    """A claim says by when its job should have started."""

    @pytest.mark.parametrize("on_late", list(OnLate))
    def test_the_limit_counts_from_the_jobs_time(self, harness: Harness, on_late: OnLate) -> None:
        """`start_by` is the job's time plus what it was given, and what to do about lateness goes with it."""
        job_id = harness.enqueue(delay=_in(10), start_within=_in(60), on_late=on_late)
        start_by = harness.clock.now() + _in(70)
        job = harness.job(job_id)
        assert (job.start_by, job.on_late) == (start_by, on_late)
        harness.clock.advance(10)
        (claim,) = harness.claim(harness.register())
        assert (claim.start_by, claim.on_late) == (start_by, on_late)

    def test_a_given_time_counts_too(self, harness: Harness) -> None:
        """With `run_at`, the limit counts from that, even if it is past."""
        run_at = harness.clock.now() - _in(100)
        job_id = harness.enqueue(run_at=run_at, start_within=_in(60), on_late=OnLate.EXPIRE)
        assert harness.job(job_id).start_by == run_at + _in(60)
        assert harness.claim(harness.register())[0].start_by == run_at + _in(60)

    def test_a_limit_beyond_the_calendar_is_its_end(self, harness: Harness) -> None:
        """A sum that no datetime can tell is shown as the last one that it can: no look and no claim fails."""
        ages = timedelta(days=36_525)
        job_id = harness.enqueue(run_at=LATEST, start_within=ages)
        assert (harness.job(job_id).run_at, harness.job(job_id).start_by) == (LATEST, LATEST)
        assert harness.run(harness.verbs.situation(job_id)) is not None
        assert [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs] == [job_id]
        worker = harness.register()
        assert harness.claimed_ids(worker) == []
        harness.clock.advance((LATEST - harness.clock.now()).total_seconds())
        (claim,) = harness.claim(worker)
        assert (claim.job_id, claim.start_by) == (job_id, LATEST)

    @pytest.mark.parametrize("when", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
    def test_a_job_at_the_end_of_the_calendar_disturbs_no_look(self, harness: Harness, when: datetime) -> None:
        """One that was moved there is shown, and others are claimed beside it."""
        job_id, worker = harness.enqueue(delay=_in(60)), harness.register()
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, when))
        assert abs(harness.job(job_id).run_at - when) < _in(86_401)
        assert harness.run(harness.verbs.situation(job_id)) is not None
        assert [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs] == [job_id]
        assert [age.name for age in harness.run(harness.verbs.queue_ages()).queues] in ([], ["default"])
        other = harness.enqueue()
        assert other in harness.claimed_ids(worker)

    def test_without_a_limit(self, harness: Harness) -> None:
        """A job may start at any time unless something else was said."""
        job = harness.job(harness.enqueue())
        assert (job.start_by, job.on_late) == (None, OnLate.RUN)
        (claim,) = harness.claim(harness.register())
        assert (claim.start_by, claim.on_late) == (None, OnLate.RUN)

    def test_the_store_expires_nothing(self, harness: Harness) -> None:
        """A late job is given out as any other: whoever would start it knows best whether it is too late."""
        job_id = harness.enqueue(start_within=_in(1), on_late=OnLate.EXPIRE)
        harness.clock.advance(3600)
        assert harness.job(job_id).state is State.READY
        assert harness.claimed_ids(harness.register()) == [job_id]

    def test_a_worker_expires_it(self, harness: Harness) -> None:
        """A worker that finds its job too late ends it as cancelled(expired)."""
        placed = harness.place(State.HELD, start_within=_in(1), on_late=OnLate.EXPIRE)
        harness.finish(placed.worker, placed.ref, Move.CANCEL, reason=Reason.EXPIRED)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.attempt) == (State.CANCELLED, Reason.EXPIRED, 0)

    def test_a_claim_given_back_leaves_the_limit(self, harness: Harness) -> None:
        """A job that was held and released was not tried: its limit still counts."""
        placed = harness.place(State.HELD, start_within=_in(5))
        start_by = harness.clock.now() + _in(5)
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        harness.clock.advance(60)
        assert harness.claim(placed.worker)[0].start_by == start_by

    def test_a_tried_job_is_late_no_more(self, harness: Harness) -> None:
        """A retry comes when it comes: its claim has no limit, though the job still shows what it was."""
        placed = harness.place(State.RUNNING, start_within=_in(5), on_late=OnLate.EXPIRE)
        start_by = harness.clock.now() + _in(5)
        harness.finish(placed.worker, placed.ref, Move.RETRY)
        (claim,) = harness.claim(placed.worker)
        assert (claim.attempt, claim.start_by) == (1, None)
        assert harness.job(placed.job_id).start_by == start_by

    def test_a_job_whose_time_was_moved_past_its_limit_is_not_late(self, harness: Harness) -> None:
        """A snooze beyond the limit, or the requeue of a dead job after it, is a decision to start later."""
        placed = harness.place(State.RUNNING, start_within=_in(5), on_late=OnLate.EXPIRE)
        harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=_in(6))
        harness.clock.advance(7)
        (claim,) = harness.claim(placed.worker)
        assert (claim.attempt, claim.start_by) == (0, None)
        harness.finish(placed.worker, claim.ref, Move.DIE)
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        (claim,) = harness.claim(placed.worker)
        assert (claim.attempt, claim.start_by) == (0, None)
