"""Many jobs changed in one call: to each is done what the call for one does, or nothing."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import Harness
from standfast.errors import KeyTakenError
from standfast.model.job import JobAction, OnConflict
from standfast.model.memos import SLEEPING
from standfast.model.states import Move, Reason, State

ACTS_ON = {
    JobAction.RETRY: {State.DEAD: State.READY, State.SCHEDULED: State.READY},
    JobAction.DISCARD: {State.DEAD: State.CANCELLED},
    JobAction.RESCHEDULE: {State.READY: State.SCHEDULED, State.SCHEDULED: State.SCHEDULED},
    JobAction.CANCEL: {
        **dict.fromkeys((State.READY, State.SCHEDULED, State.BLOCKED), State.CANCELLED),
        **{state: state for state in (State.HELD, State.RUNNING)},
    },
}


class Bulk:
    """One call for many jobs."""

    @pytest.mark.parametrize("action", JobAction)
    def test_each_is_changed_as_alone_or_left_as_it_is(self, harness: Harness, action: JobAction) -> None:
        """Of every state, and of a job that is not there, the call does what the one for a single job does."""
        twins = {
            state: tuple(harness.place(state, queue=f"{state}-{each}").job_id for each in "ab") for state in State
        }
        run_at = harness.clock.now() + timedelta(hours=1) if action is JobAction.RESCHEDULE else None
        nowhere = harness.new_job().id
        meant = [one for one, _ in twins.values()]
        changed = harness.run(harness.verbs.change_jobs(action, [*meant, nowhere], run_at))
        assert changed == {twins[state][0] for state in ACTS_ON[action]}
        for state, (one, other) in twins.items():
            assert harness.job(one).state is ACTS_ON[action].get(state, state)
            if state in ACTS_ON[action]:
                _alone(harness, action, other, run_at)
            assert _shown(harness, one) == _shown(harness, other)
        again = harness.run(harness.verbs.change_jobs(action, meant, run_at))
        assert again <= changed
        assert {state: count for state, count in harness.run(harness.verbs.count()).items() if count} == {
            state: sum(harness.job(job_id).state is state for pair in twins.values() for job_id in pair)
            for state in {harness.job(job_id).state for pair in twins.values() for job_id in pair}
        }

    def test_keys_are_taken_again_once(self, harness: Harness) -> None:
        """Of two dead jobs with one key one comes back, and none whose key a living job has."""
        first, second, third = (_dead(harness, key=key) for key in ("a", "a", "b"))
        harness.enqueue(key="b")
        changed = harness.run(harness.verbs.change_jobs(JobAction.RETRY, [first, second, third]))
        assert len(changed) == 1
        assert changed < {first, second}
        for job_id in {first, second, third} - changed:
            with pytest.raises(KeyTakenError):
                harness.run(harness.verbs.requeue(job_id))
        assert harness.claim(harness.register(), 9)

    def test_one_that_is_to_replace_a_claimed_job_is_left(self, harness: Harness) -> None:
        """To cancel it gives a key back, which the call for one job does."""
        placed = harness.place(State.RUNNING, key="k")
        waits = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        assert harness.run(harness.verbs.change_jobs(JobAction.CANCEL, [waits])) == frozenset()
        harness.run(harness.verbs.cancel(waits))
        assert harness.job(placed.job_id).state is State.RUNNING

    def test_one_that_has_given_its_slot_back_keeps_its_time(self, harness: Harness) -> None:
        """It is not moved; to retry it wakes it."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=timedelta(hours=1), reason=SLEEPING)
        at = harness.clock.now() + timedelta(minutes=1)
        assert harness.run(harness.verbs.change_jobs(JobAction.RESCHEDULE, [placed.job_id], at)) == frozenset()
        changed = harness.run(harness.verbs.change_jobs(JobAction.RETRY, [placed.job_id]))
        assert changed == {placed.job_id}
        assert harness.job(placed.job_id).reason is None


def _alone(harness: Harness, action: JobAction, job_id: str, run_at: Any) -> None:
    verbs = harness.verbs
    match action:
        case JobAction.RETRY:
            harness.run(verbs.requeue(job_id))
        case JobAction.CANCEL:
            harness.run(verbs.cancel(job_id))
        case JobAction.DISCARD:
            harness.run(verbs.discard(job_id))
        case JobAction.RESCHEDULE:
            harness.run(verbs.reschedule(job_id, run_at))


def _shown(harness: Harness, job_id: str) -> tuple[Any, ...]:
    job = harness.job(job_id)
    told = (
        job.state,
        job.reason,
        job.attempt,
        job.crashes,
        job.error,
        job.cancel_requested,
        job.finished_at is None,
    )
    return (*told, job.run_at if job.reason is not Reason.NO_WORKER else None, len(harness.history(job_id)))


def _dead(harness: Harness, **fields: Any) -> str:
    placed = harness.place(State.RUNNING, **fields)
    harness.finish(placed.worker, placed.ref, Move.DIE)
    return placed.job_id
