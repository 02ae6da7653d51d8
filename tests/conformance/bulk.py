"""Many jobs changed in one call: to each is done what the call for one does, or nothing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from conformance.harness import Harness
from standfast.errors import KeyTakenError
from standfast.model.job import Cancellation, JobAction, OnConflict
from standfast.model.memos import SLEEPING
from standfast.model.states import CLAIMED, Move, Reason, State
from standfast.stores.contract import cancel_job, change_job, count_states
from standfast.stores.values import JobOutcome, KeyHolder

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
        changed = _changed(harness, action, [*meant, nowhere], run_at)
        assert changed == {twins[state][0] for state in ACTS_ON[action]}
        for state, (one, other) in twins.items():
            assert harness.job(one).state is ACTS_ON[action].get(state, state)
            if state in ACTS_ON[action]:
                harness.run(change_job(harness.verbs, action, other, run_at))
            assert _shown(harness, one) == _shown(harness, other)
        again = _changed(harness, action, meant, run_at)
        assert again <= changed
        assert {state: count for state, count in harness.run(count_states(harness.verbs)).items() if count} == {
            state: sum(harness.job(job_id).state is state for pair in twins.values() for job_id in pair)
            for state in {harness.job(job_id).state for pair in twins.values() for job_id in pair}
        }

    def test_keys_are_taken_again_once(self, harness: Harness) -> None:
        """Of two dead jobs with one key one comes back, and none whose key a living job has."""
        first, second, third = (_dead(harness, key=key) for key in ("a", "a", "b"))
        harness.enqueue(key="b")
        changed = _changed(harness, JobAction.RETRY, [first, second, third])
        assert len(changed) == 1
        assert changed < {first, second}
        for job_id in {first, second, third} - changed:
            with pytest.raises(KeyTakenError):
                harness.run(change_job(harness.verbs, JobAction.RETRY, job_id))
        assert harness.claim(harness.register(), 9)

    def test_one_that_is_to_replace_a_claimed_job_gives_its_key_back(self, harness: Harness) -> None:
        """It is left as it is, or cancelled as the call for one job does it."""
        placed = harness.place(State.RUNNING, key="k")
        waits, other = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE), harness.enqueue()
        changed = _changed(harness, JobAction.CANCEL, [waits, other])
        assert changed in ({other}, {other, waits})
        assert (harness.job(waits).state is State.CANCELLED) is (waits in changed)
        harness.run(cancel_job(harness.verbs, waits))
        assert harness.job(waits).state is State.CANCELLED
        assert harness.job(placed.job_id).state is State.RUNNING
        assert harness.taken_by(key="k") == placed.job_id

    @pytest.mark.parametrize("action", JobAction)
    @pytest.mark.parametrize("state", [*State, None])
    def test_one_is_always_answered_for(self, harness: Harness, action: JobAction, state: State | None) -> None:
        """With its state as it was, none without such a job; what came of a wish to cancel follows from that."""
        job_id = "unknown" if state is None else harness.place(state).job_id
        run_at = harness.clock.now() + timedelta(hours=1) if action is JobAction.RESCHEDULE else None
        outcome = harness.run(harness.verbs.change_jobs(action, [job_id], run_at))[job_id]
        assert outcome == JobOutcome(changed=state in ACTS_ON[action], state=state)
        assert (outcome.cancellation is Cancellation.REQUESTED) is (outcome.changed and state in CLAIMED)

    def test_who_has_the_key_is_told(self, harness: Harness) -> None:
        """Of one dead job that is not retried, as another has its key."""
        dead, holder = _dead(harness, key="a"), harness.enqueue(key="a")
        task = harness.job(dead).task
        outcome = harness.run(harness.verbs.change_jobs(JobAction.RETRY, [dead]))[dead]
        assert outcome == JobOutcome(
            changed=False, state=State.DEAD, holder=KeyHolder(task, "a", holder, State.READY)
        )

    def test_one_that_has_given_its_slot_back_keeps_its_time(self, harness: Harness) -> None:
        """It is not moved; to retry it wakes it."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=timedelta(hours=1), reason=SLEEPING)
        at = harness.clock.now() + timedelta(minutes=1)
        assert _changed(harness, JobAction.RESCHEDULE, [placed.job_id], at) == set()
        changed = _changed(harness, JobAction.RETRY, [placed.job_id])
        assert changed == {placed.job_id}
        assert harness.job(placed.job_id).reason is None


def _changed(
    harness: Harness, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
) -> set[str]:
    outcomes = harness.run(harness.verbs.change_jobs(action, job_ids, run_at))
    assert set(outcomes) <= set(job_ids)
    return {job_id for job_id, outcome in outcomes.items() if outcome.changed}


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
