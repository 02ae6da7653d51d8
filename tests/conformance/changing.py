"""What comes of the change of a record: jobs that are enqueued, cancelled and withdrawn with it, or not at all."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from conformance.harness import Harness
from conformance.recording import all_there_is
from standfast.errors import JobStateError
from standfast.model.job import OnConflict
from standfast.model.records import Change
from standfast.model.states import CLAIMED, Reason, State
from standfast.stores.contract import cancel_job
from standfast.stores.values import ClaimRequest


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


class WhatComesOfChanges:
    """Jobs and cancellations happen with the change as their own verbs would have them."""

    def test_jobs_are_enqueued(self, harness: Harness) -> None:
        """Jobs with all that jobs can have are accepted as by `enqueue`, in the order given."""
        later = harness.clock.now() + _in(60)
        jobs = (
            harness.new_job(priority=3, queue="q"),
            harness.new_job(run_at=later, tags=("t",), metadata={"n": "1"}, start_within=_in(5)),
            harness.new_job(key="k"),
            harness.new_job(delay=_in(7), payload=b"\x00\xff"),
        )
        assert harness.change("a", jobs=jobs)
        shown = [harness.job(job.id) for job in jobs]
        plain, timed, keyed, delayed = shown
        assert (plain.state, plain.queue, plain.priority) == (State.READY, "q", 3)
        assert (timed.state, timed.run_at, timed.start_by) == (State.SCHEDULED, later, later + _in(5))
        assert (timed.tags, dict(timed.metadata)) == (("t",), {"n": "1"})
        assert harness.taken_by(key="k") == keyed.id
        assert (delayed.run_at, delayed.payload) == (harness.clock.now() + _in(7), b"\x00\xff")
        assert all(job.created_at == harness.clock.now() for job in shown)

    def test_jobs_of_changes_are_claimed(self, harness: Harness) -> None:
        """They wait in the order of the changes, beside any other."""
        first = harness.enqueue()
        jobs = [harness.new_job() for _ in range(4)]
        changes = [harness.new_change(name, jobs=tuple(two)) for name, two in (("b", jobs[:2]), ("a", jobs[2:]))]
        harness.run(harness.verbs.change_records(changes))
        assert harness.claimed_ids(harness.register()) == [first, *(job.id for job in jobs)]

    def test_a_job_ahead_of_its_time_is_claimed_ahead(self, harness: Harness) -> None:
        """A fire made ahead of its time is a job like any other to those who look ahead."""
        planned = harness.clock.now() + _in(5)
        job = harness.new_job(run_at=planned)
        harness.change("a", jobs=(job,), fires=(harness.new_fire(planned=planned, job_id=job.id),))
        (claim,) = harness.claim(harness.register(), look_ahead=_in(10), ahead_limit=1)
        assert (claim.job_id, claim.run_at) == (job.id, planned)

    def test_a_job_that_is_known_is_left(self, harness: Harness) -> None:
        """A job whose id is there already stays as it is, and the change is made all the same."""
        placed = harness.place(State.RUNNING)
        before = harness.snapshot()
        assert harness.change("a", jobs=(harness.new_job(id=placed.job_id, queue="else"),))
        assert harness.snapshot() == before

    def test_a_taken_key(self, harness: Harness) -> None:
        """A job whose key is taken is not stored, or takes the other's place; the change is made."""
        holders = {key: harness.enqueue(key=key, delay=_in(60)) for key in ("kept", "replaced")}
        kept = harness.new_job(key="kept")
        replacing = harness.new_job(key="replaced", on_conflict=OnConflict.REPLACE)
        assert harness.change("a", jobs=(kept, replacing))
        assert harness.run(harness.verbs.get(kept.id)) is None
        replaced = harness.job(holders["replaced"])
        assert (replaced.state, replaced.reason) == (State.CANCELLED, Reason.REPLACED)
        assert harness.taken_by(key="replaced") == replacing.id

    def test_a_claimed_holder_of_a_key_is_waited_for(self, harness: Harness) -> None:
        """The job of a change waits as blocked(replacing) for the end of a claimed one, as any replacement does."""
        placed = harness.place(State.RUNNING, key="k")
        job = harness.new_job(key="k", on_conflict=OnConflict.REPLACE)
        harness.change("a", jobs=(job,))
        assert (harness.job(job.id).reason, harness.job(job.id).after) == (Reason.REPLACING, placed.job_id)
        assert harness.beat(placed.worker).replaced == {placed.worker: (placed.ref,)}

    def test_jobs_of_two_changes_with_one_key(self, harness: Harness) -> None:
        """The first one has it."""
        jobs = [harness.new_job(key="k") for _ in range(2)]
        changes = [harness.new_change(name, jobs=(job,)) for name, job in zip("ba", jobs, strict=True)]
        assert harness.run(harness.verbs.change_records(changes)) == (True, True)
        assert [job.id for job in harness.snapshot().jobs] == [jobs[0].id]

    def test_a_job_that_would_raise_is_refused(self, harness: Harness) -> None:
        """What a taken key would undo cannot be asked for, whether the key is taken or not."""
        before = all_there_is(harness)
        changes = [
            harness.new_change("a", jobs=(harness.new_job(),)),
            harness.new_change("b", jobs=(harness.new_job(key="k", on_conflict=OnConflict.RAISE),)),
        ]
        with pytest.raises(ValueError, match="on_conflict"):
            harness.run(harness.verbs.change_records(changes))
        assert all_there_is(harness) == before

    @pytest.mark.parametrize("state", sorted(State))
    @pytest.mark.parametrize("forgets", [False, True])
    def test_cancels(self, harness: Harness, state: State, *, forgets: bool) -> None:
        """Jobs are cancelled as `cancel` does it; what is final or unknown is passed over."""
        placed, like = harness.place(state, queue="a"), harness.place(state, queue="b")
        harness.run(cancel_job(harness.verbs, like.job_id))
        harness.change("a")
        assert harness.change("a", seen=1, body=None if forgets else b"", cancels=("unknown", placed.job_id))
        job, expected = harness.job(placed.job_id), harness.job(like.job_id)
        assert (job.state, job.reason, job.finished_at) == (expected.state, expected.reason, expected.finished_at)
        assert job.cancel_requested is expected.cancel_requested

    def test_a_replacement_that_a_change_cancels(self, harness: Harness) -> None:
        """A job that is blocked(replacing) gives its key back to the one it waits for."""
        placed = harness.place(State.RUNNING, key="k")
        replacement = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        harness.change("a", cancels=(replacement,))
        assert harness.job(replacement).state is State.CANCELLED
        assert harness.taken_by(key="k") == placed.job_id
        assert harness.beat(placed.worker).replaced == {}

    def test_cancels_come_before_jobs(self, harness: Harness) -> None:
        """A job may have the key of one that is cancelled with the same change."""
        old, new = harness.enqueue(key="k", delay=_in(60)), harness.new_job(key="k")
        harness.change("a", cancels=(old,), jobs=(new,))
        assert harness.job(old).state is State.CANCELLED
        assert harness.taken_by(key="k") == new.id

    def test_who_hears_of_a_change(self, harness: Harness) -> None:
        """Jobs wake workers; what may end a job is told; a change of the record alone disturbs nobody."""

        def tones(*changes: Change) -> tuple[bool, bool]:
            verb = harness.verbs.change_records(changes)
            verb.steps.close()
            return verb.wakes, verb.tells

        plain, with_job = harness.new_change("a"), harness.new_change("b", jobs=(harness.new_job(),))
        replacing = harness.new_job(key="k", on_conflict=OnConflict.REPLACE)
        assert tones(plain) == (False, False)
        assert tones(plain, with_job) == (True, False)
        assert tones(plain, harness.new_change("c", cancels=("x",))) == (False, True)
        assert tones(plain, harness.new_change("c", withdraws=("x",))) == (False, True)
        assert tones(harness.new_change("d", jobs=(replacing,))) == (True, True)

    def test_a_refused_change_disturbs_nobody(self, harness: Harness) -> None:
        """Who comes second to fire a schedule wakes no worker for it."""
        harness.change("a")
        fire = harness.new_change("a", seen=1, jobs=(harness.new_job(),), cancels=("x",))
        late = harness.new_change("a", seen=1, jobs=(harness.new_job(),), cancels=("x",))
        verbs = [harness.verbs.change_records([change]) for change in (fire, late)]
        assert [harness.run(verb) for verb in verbs] == [(True,), (False,)]
        assert [(verb.wakes, verb.tells) for verb in verbs] == [(True, True), (False, False)]


class Withdrawing:
    """A change that withdraws a job is made before any worker has it, or not at all."""

    @pytest.mark.parametrize("state", sorted(set(State) - CLAIMED))
    @pytest.mark.parametrize("forgets", [False, True])
    def test_what_nobody_has_is_withdrawn(self, harness: Harness, state: State, *, forgets: bool) -> None:
        """A waiting job is cancelled as `cancel` does it; what is final or unknown is passed over."""
        placed, like = harness.place(state, queue="a"), harness.place(state, queue="b")
        harness.run(cancel_job(harness.verbs, like.job_id))
        harness.change("a")
        assert harness.change("a", seen=1, body=None if forgets else b"", withdraws=("unknown", placed.job_id))
        job, expected = harness.job(placed.job_id), harness.job(like.job_id)
        assert (job.state, job.reason, job.finished_at) == (expected.state, expected.reason, expected.finished_at)

    @pytest.mark.parametrize("state", sorted(CLAIMED))
    @pytest.mark.parametrize("forgets", [False, True])
    def test_what_a_worker_has_stops_the_whole_call(self, harness: Harness, state: State, *, forgets: bool) -> None:
        """It is not asked back, and nothing of any change of the call happens."""
        placed, waiting = harness.place(state), harness.place(State.SCHEDULED)
        harness.change("b", fires=(harness.new_fire("b"),))
        before = all_there_is(harness)
        changes = [
            harness.new_change("a", jobs=(harness.new_job(),), fires=(harness.new_fire("a"),)),
            harness.new_change(
                "b",
                seen=1,
                body=None if forgets else b"new",
                cancels=(waiting.job_id,),
                withdraws=(waiting.job_id, placed.job_id),
            ),
            harness.new_change("c", jobs=(harness.new_job(),)),
        ]
        with pytest.raises(JobStateError, match=placed.job_id):
            harness.run(harness.verbs.change_records(changes))
        assert all_there_is(harness) == before
        assert harness.beat(placed.worker).revoked == {}

    def test_a_refused_change_withdraws_nothing(self, harness: Harness) -> None:
        """Who has not seen the newest version is refused, whatever workers have."""
        placed = harness.place(State.HELD)
        harness.change("a")
        before = all_there_is(harness)
        assert not harness.change("a", withdraws=(placed.job_id,))
        assert all_there_is(harness) == before

    def test_forgetting_what_does_not_exist_withdraws_nothing(self, harness: Harness) -> None:
        """It is no change, whatever workers have."""
        placed = harness.place(State.HELD)
        before = all_there_is(harness)
        assert harness.change("a", body=None, withdraws=(placed.job_id,))
        assert all_there_is(harness) == before

    def test_a_repeated_withdrawal(self, harness: Harness) -> None:
        """A change that was made before says so, whatever has become of its jobs since."""
        old, new = harness.enqueue(delay=_in(5)), harness.new_job()
        change = harness.new_change("a", withdraws=(old, new.id), jobs=(new,))
        assert harness.run(harness.verbs.change_records([change])) == (True,)
        harness.claim_one(harness.register())
        before = all_there_is(harness)
        assert harness.run(harness.verbs.change_records([change])) == (True,)
        assert all_there_is(harness) == before

    def test_withdrawals_come_before_jobs(self, harness: Harness) -> None:
        """A job may have the key of one that is withdrawn with the same change."""
        old, new = harness.enqueue(key="k", delay=_in(60)), harness.new_job(key="k")
        harness.change("a", withdraws=(old,), jobs=(new,))
        assert harness.job(old).state is State.CANCELLED
        assert harness.taken_by(key="k") == new.id

    def test_claims_race_with_withdrawals(self, harness: Harness) -> None:
        """Either a worker has the job and the change is not made, or the other way round."""
        jobs = [harness.new_job() for _ in range(30)]
        harness.run(harness.verbs.enqueue(jobs))
        worker = harness.register()

        def claim() -> set[str]:
            calls = [harness.verbs.claim(ClaimRequest(worker, call, 1)) for call in range(1, 31)]
            return {claim.job_id for call in calls for claim in harness.run(call).jobs}

        def withdraw() -> set[str]:
            return {job.id for job in reversed(jobs) if _is_withdrawn(harness, job.id)}

        with ThreadPoolExecutor(2) as threads:
            claimed, withdrawn = (act.result() for act in (threads.submit(claim), threads.submit(withdraw)))
        assert claimed | withdrawn == {job.id for job in jobs}
        assert not claimed & withdrawn
        assert {record.name for record in harness.kept().records} == withdrawn
        assert {job.id for job in harness.snapshot().jobs if job.state is State.HELD} == claimed


def _is_withdrawn(harness: Harness, job_id: str) -> bool:
    try:
        return harness.change(job_id, withdraws=(job_id,))
    except JobStateError:
        return False
