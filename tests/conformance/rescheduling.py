"""A job that waits to be started can be given another time."""

from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.errors import JobNotFoundError, JobStateError
from standfast.model.crash import DeathKind
from standfast.model.job import Failure, JobAction, OnConflict
from standfast.model.states import Move, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.values import JobFilter

_HOUR = timedelta(hours=1)


class Rescheduling:
    """Only when it is due changes."""

    @pytest.mark.parametrize("was", [State.SCHEDULED, State.READY])
    def test_a_job_is_due_at_its_new_time(self, harness: Harness, was: State) -> None:
        """It is scheduled until then, whatever it was, and nobody gets it before."""
        placed = harness.place(was)
        run_at = harness.clock.now() + timedelta(seconds=30, microseconds=1)
        before = harness.job(placed.job_id)
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, placed.job_id, run_at))
        job = harness.job(placed.job_id)
        assert (job.state, job.run_at) == (State.SCHEDULED, run_at)
        assert (job.fence, job.created_at, job.payload) == (0, before.created_at, before.payload)
        assert harness.run(count_states(harness.verbs))[State.SCHEDULED] == 1
        assert harness.claimed_ids(placed.worker) == []
        harness.clock.advance(31)
        assert harness.claimed_ids(placed.worker) == [placed.job_id]

    @pytest.mark.parametrize("was", [State.SCHEDULED, State.READY])
    def test_a_past_time_makes_it_ready(self, harness: Harness, was: State) -> None:
        """It goes before those that are due later."""
        others = [harness.enqueue(queue="q") for _ in range(2)]
        job_id = harness.enqueue(queue="q", delay=_HOUR if was is State.SCHEDULED else timedelta())
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, harness.clock.now() - _HOUR))
        assert harness.job(job_id).state is State.READY
        assert harness.claimed_ids(harness.register()) == [job_id, *others]

    def test_repeating_it_succeeds(self, harness: Harness) -> None:
        """The second time changes nothing."""
        job_id, run_at = harness.enqueue(), harness.clock.now() + _HOUR
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, run_at))
        shown = harness.snapshot()
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, run_at))
        assert harness.snapshot() == shown

    def test_what_was_charged_stays(self, harness: Harness) -> None:
        """A retry that is moved keeps its fence, its attempts, its error, and its history."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.RETRY, delay=_HOUR, failure=Failure("ValueError", "oh no"))
        before = harness.job(placed.job_id)
        for hours in (2, -1):
            harness.run(
                change_job(harness.verbs, JobAction.RESCHEDULE, placed.job_id, harness.clock.now() + hours * _HOUR)
            )
        job = harness.job(placed.job_id)
        assert (job.fence, job.attempt, job.error) == (before.fence, 1, before.error)
        assert harness.run(harness.verbs.unsettled(None)) == 1
        assert harness.claim_one(placed.worker).fence == before.fence + 1
        assert len(harness.history(placed.job_id)) == 2

    def test_a_suspect_stays_one(self, harness: Harness) -> None:
        """What brought a process down runs alone at its new time, too."""
        placed = harness.place(State.RUNNING)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, placed.job_id, harness.clock.now() + _HOUR))
        job = harness.job(placed.job_id)
        assert (job.state, job.group, job.crashes) == (State.SCHEDULED, 1, 1)
        harness.clock.advance(3601)
        assert harness.claimed_ids(harness.register(), group=1) == [placed.job_id]

    def test_a_key_stays_taken(self, harness: Harness) -> None:
        """A job that is moved is replaced and found as before."""
        job_id = harness.enqueue(key="k", tags=("t",))
        harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, harness.clock.now() + _HOUR))
        assert harness.taken_by(key="k") == job_id
        assert [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter(key="k", tags=("t",)))).jobs] == [
            job_id
        ]
        assert harness.taken_by(key="k", on_conflict=OnConflict.REPLACE) is None
        assert harness.job(job_id).state is State.CANCELLED

    @pytest.mark.parametrize("state", sorted(set(State) - {State.READY, State.SCHEDULED}))
    def test_any_other_state_refuses(self, harness: Harness, state: State) -> None:
        """Who is refused is told in which state the job is, and nothing has changed."""
        placed = harness.place(state)
        shown = harness.snapshot()
        with pytest.raises(JobStateError, match=state):
            harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, placed.job_id, harness.clock.now() + _HOUR))
        assert harness.snapshot() == shown

    def test_a_replacement_that_waits_refuses(self, harness: Harness) -> None:
        """It waits for the end of another job, not for its time."""
        harness.place(State.RUNNING, key="k")
        job_id = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        with pytest.raises(JobStateError, match="blocked"):
            harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, job_id, harness.clock.now() + _HOUR))

    @pytest.mark.parametrize("name", ["paid", None])
    def test_a_suspended_job_refuses(self, harness: Harness, name: str | None) -> None:
        """It is in the middle of its work, also when its time has come and nobody took it up yet."""
        placed = harness.suspend(name, timedelta(minutes=1))
        for seconds in (0, 61):
            harness.clock.advance(seconds)
            shown = harness.snapshot()
            with pytest.raises(JobStateError, match="suspended"):
                harness.run(
                    change_job(harness.verbs, JobAction.RESCHEDULE, placed.job_id, harness.clock.now() + _HOUR)
                )
            assert harness.snapshot() == shown

    def test_what_is_unknown_cannot_be_rescheduled(self, harness: Harness) -> None:
        """There is nothing to move without a job."""
        with pytest.raises(JobNotFoundError, match="unknown"):
            harness.run(change_job(harness.verbs, JobAction.RESCHEDULE, "unknown", harness.clock.now()))

    def test_it_wakes_workers(self, harness: Harness) -> None:
        """The new time may be earlier than what an idle worker waits for."""
        job_id = harness.enqueue(delay=_HOUR)
        assert change_job(harness.verbs, JobAction.RESCHEDULE, job_id, harness.clock.now()).wakes
