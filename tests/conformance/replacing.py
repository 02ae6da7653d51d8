"""A job may take the place of another with its key: at once where that waits, after it where a worker has it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import KNOWN, Harness, Placed
from standfast.model.crash import DeathKind
from standfast.model.job import Cancellation, Ending, Job, JobAction, NewJob, OnConflict, Verdict
from standfast.model.states import CLAIMED, ENDINGS, FINAL, MOVES, RETURNS, WAITING, Move, Reason, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import WorkerBeat

REPLACE = OnConflict.REPLACE

End = Callable[[Harness, Placed], object]
"""A way in which a claim that its worker did not complete comes to its end."""


def _replace(harness: Harness, **fields: Any) -> str:
    """Enqueue a job that replaces the one with key `k`, and must be accepted."""
    job = harness.new_job(**{"key": "k", "on_conflict": REPLACE, **fields})
    assert harness.run(harness.verbs.enqueue([job])) == {}
    return job.id


def _is_free(job: Job) -> bool:
    return (job.state, job.reason, job.after) == (State.READY, None, None)


def _reconcile(harness: Harness, placed: Placed) -> object:
    return harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, 10**6)))


def _stop(harness: Harness, placed: Placed) -> object:
    return harness.bury(placed.worker, DeathKind.STOPPED)


def _crash(harness: Harness, placed: Placed) -> object:
    return harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), "signal 9")


def _vanish(harness: Harness, placed: Placed) -> object:
    return harness.bury(placed.worker, DeathKind.VANISHED)


def _release(harness: Harness, placed: Placed) -> object:
    return harness.finish(placed.worker, placed.ref, Move.RELEASE)


WITHOUT_ITS_WORKER: list[End] = [_reconcile, _stop, _crash, _vanish]


class ReplacingTheWaiting:
    """A job that nobody has makes room at once."""

    @pytest.mark.parametrize("state", sorted(WAITING))
    def test_a_waiting_job_ends_as_replaced(self, harness: Harness, state: State) -> None:
        """The old job is cancelled(replaced) now and never claimed; the new one has the key and waits as any."""
        old = harness.place(state, key="k")
        harness.clock.advance(2)
        new = _replace(harness)
        job = harness.job(old.job_id)
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, Reason.REPLACED, harness.clock.now())
        assert _is_free(harness.job(new))
        assert harness.taken_by(key="k") == new
        harness.clock.advance(7200)
        assert harness.claimed_ids(old.worker, adopt=(KNOWN,)) == [new]

    def test_the_new_job_has_a_time_of_its_own(self, harness: Harness) -> None:
        """A replacement waits for the time that it was given, not for that of the old one: a debounce."""
        harness.enqueue(key="k", delay=timedelta(seconds=5))
        harness.clock.advance(4)
        new = _replace(harness, delay=timedelta(seconds=5))
        harness.clock.advance(4)
        assert harness.claim(harness.register()) == ()
        harness.clock.advance(1)
        assert harness.claimed_ids(harness.register()) == [new]

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_an_ended_job_is_not_touched(self, harness: Harness, state: State) -> None:
        """Who replaces where the key is free is simply accepted."""
        old = harness.place(state, key="k")
        before = harness.job(old.job_id)
        assert _is_free(harness.job(_replace(harness)))
        assert harness.job(old.job_id) == before

    def test_a_completed_job_cannot_be_replaced(self, harness: Harness) -> None:
        """While a completed job's key is kept, the new job is not stored and the caller is told of the old one."""
        old = harness.place(State.COMPLETED, key="k", keep_key=timedelta(seconds=60))
        before = harness.snapshot()
        assert harness.taken_by(key="k", on_conflict=REPLACE) == old.job_id
        assert harness.snapshot() == before
        harness.clock.advance(60)
        assert harness.taken_by(key="k", on_conflict=REPLACE) is None

    def test_within_one_call_the_last_one_wins(self, harness: Harness) -> None:
        """Jobs of one call replace each other in their order."""
        jobs = [harness.new_job(key="k", on_conflict=REPLACE) for _ in range(3)]
        assert harness.run(harness.verbs.enqueue(jobs)) == {}
        assert [(harness.job(job.id).state, harness.job(job.id).reason) for job in jobs] == [
            (State.CANCELLED, Reason.REPLACED),
            (State.CANCELLED, Reason.REPLACED),
            (State.READY, None),
        ]
        assert harness.claimed_ids(harness.register()) == [jobs[2].id]

    def test_replacing_keeps_to_its_task_and_key(self, harness: Harness) -> None:
        """Other keys and other tasks are left alone."""
        others = [harness.enqueue(key="other"), harness.enqueue(key="k", task="other"), harness.enqueue()]
        _replace(harness)
        assert {harness.job(job_id).state for job_id in others} == {State.READY}


class ReplacingTheClaimed:
    """A job that a worker has in hand is waited for: never do both run."""

    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_the_new_job_is_blocked_after_the_old_one(self, harness: Harness, state: State) -> None:
        """The new job says for whom it waits; the old one goes on, and nobody has asked it to cancel."""
        old = harness.place(state, key="k")
        before = harness.job(old.job_id)
        new = harness.job(_replace(harness))
        assert (new.state, new.reason, new.after) == (State.BLOCKED, Reason.REPLACING, old.job_id)
        assert harness.job(old.job_id) == before
        assert harness.taken_by(key="k") == new.id

    def test_the_blocked_one_cannot_be_claimed(self, harness: Harness) -> None:
        """Neither its time nor a worker that adopts its task brings it, and nobody is told to come for it."""
        old = harness.place(State.HELD, key="k")
        new = _replace(harness, delay=timedelta(seconds=5))
        harness.clock.advance(6)
        answer = harness.ask(
            old.worker, adopt=(KNOWN,), look_ahead=timedelta(hours=1), ahead_limit=9, max_wait=timedelta(seconds=1)
        )
        assert (answer.jobs, answer.next_due_at) == ((), None)
        assert harness.beat(old.worker).blocked == frozenset()
        assert harness.job(new).state is State.BLOCKED

    def test_the_beat_names_the_replaced_claim(self, harness: Harness) -> None:
        """A worker hears which of its claims are to give way, apart from those asked to cancel."""
        old = harness.place(State.HELD, key="k")
        other = harness.place(State.HELD, key="other")
        assert harness.beat(old.worker).replaced == {}
        _replace(harness)
        answer = harness.beat(old.worker)
        assert (answer.replaced, answer.revoked) == ({old.worker: (old.ref,)}, {})
        assert harness.beat(other.worker).replaced == {}

    def test_a_replaced_claim_may_be_cancelled_too(self, harness: Harness) -> None:
        """A wish to cancel is told as such, whoever else waits for the job."""
        old = harness.place(State.RUNNING, key="k")
        _replace(harness)
        assert harness.run(cancel_job(harness.verbs, old.job_id)) is Cancellation.REQUESTED
        assert harness.beat(old.worker).revoked == {old.worker: (old.ref,)}

    @pytest.mark.parametrize("move", sorted(RETURNS))
    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_a_replaced_job_waits_no_more(self, harness: Harness, state: State, move: Move) -> None:
        """An ending after which the old job would wait again ends it as replaced; the new one is free."""
        old = harness.place(state, key="k", max_attempts=1)
        new = _replace(harness)
        harness.clock.advance(3)
        fields: dict[str, Any] = {"delay": timedelta(minutes=1), "reason": Reason.NO_WORKER}
        assert harness.finish(old.worker, old.ref, move, **fields) is Verdict.ACCEPTED
        job = harness.job(old.job_id)
        assert (job.state, job.reason, job.attempt) == (State.CANCELLED, Reason.REPLACED, 0)
        assert job.finished_at == harness.clock.now()
        assert harness.last_attempt(old.job_id).how == Move.CANCEL
        assert _is_free(harness.job(new))
        assert harness.claimed_ids(old.worker, adopt=(KNOWN,)) == [new]

    @pytest.mark.parametrize("move", sorted(ENDINGS - RETURNS))
    def test_an_end_of_the_replaced_job_stands(self, harness: Harness, move: Move) -> None:
        """A job that ended by itself ended so, and then the new one runs, whatever became of the old."""
        old = harness.place(State.RUNNING, key="k", keep_key=timedelta(hours=1))
        new = _replace(harness)
        harness.finish(old.worker, old.ref, move, reason="my own", result=b"1")
        job = harness.job(old.job_id)
        assert job.state is MOVES[move].target
        if move is Move.CANCEL:
            assert job.reason == "my own"
        assert harness.taken_by(key="k") == new
        assert harness.claimed_ids(old.worker) == [new]

    @pytest.mark.parametrize("end", WITHOUT_ITS_WORKER)
    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_a_lost_worker_ends_the_replaced_job(self, harness: Harness, state: State, end: End) -> None:
        """A replaced job does not come back from a dead worker or a lost answer; the new one is free."""
        old = harness.place(state, key="k", max_attempts=1)
        new = _replace(harness)
        end(harness, old)
        job = harness.job(old.job_id)
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, Reason.REPLACED, harness.clock.now())
        assert _is_free(harness.job(new))
        assert harness.claimed_ids(harness.register()) == [new]

    @pytest.mark.parametrize("end", [_release, *WITHOUT_ITS_WORKER])
    def test_a_wish_to_cancel_is_the_better_reason(self, harness: Harness, end: End) -> None:
        """A job that was replaced and asked to cancel, in whatever order, is cancelled(requested)."""
        for cancelled_first in (True, False):
            old = harness.place(State.RUNNING, key="k")
            if cancelled_first:
                harness.run(cancel_job(harness.verbs, old.job_id))
            new = _replace(harness)
            harness.run(cancel_job(harness.verbs, old.job_id))
            end(harness, old)
            job = harness.job(old.job_id)
            assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)
            assert _is_free(harness.job(new))
            assert harness.run(cancel_job(harness.verbs, new)) is Cancellation.CANCELLED

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_the_end_of_the_old_job_wakes(self, harness: Harness, move: Move) -> None:
        """Idle workers hear that the new job may be due, also where the old one completed."""
        old = harness.place(State.RUNNING, key="k")
        _replace(harness)
        verb = harness.verbs.finish(old.worker, [Ending(old.ref, move, reason="so")])
        harness.run(verb)
        assert verb.wakes

    def test_the_new_job_still_waits_for_its_time(self, harness: Harness) -> None:
        """A replacement whose time has not come when the old job ends is scheduled, with its own time."""
        old = harness.place(State.RUNNING, key="k")
        new = _replace(harness, delay=timedelta(seconds=60))
        run_at = harness.clock.now() + timedelta(seconds=60)
        harness.finish(old.worker, old.ref, Move.COMPLETE)
        job = harness.job(new)
        assert (job.state, job.reason, job.after, job.run_at) == (State.SCHEDULED, None, None, run_at)
        harness.clock.advance(60)
        assert harness.claimed_ids(old.worker) == [new]

    def test_the_new_job_may_be_in_another_queue(self, harness: Harness) -> None:
        """The end of the old job frees the new one wherever it waits."""
        old = harness.place(State.RUNNING, key="k", queue="a")
        new = _replace(harness, queue="b")
        harness.finish(old.worker, old.ref, Move.RETRY)
        assert harness.claimed_ids(old.worker, queues=("b",)) == [new]

    def test_a_repeated_ending_leaves_the_new_job_alone(self, harness: Harness) -> None:
        """An ending whose reply was lost is accepted again and frees nobody twice."""
        old = harness.place(State.RUNNING, key="k")
        _replace(harness)
        harness.finish(old.worker, old.ref, Move.RETRY)
        harness.claim_one(old.worker)
        _replace(harness)
        before = harness.snapshot()
        assert harness.finish(old.worker, old.ref, Move.RETRY) is Verdict.ACCEPTED
        assert harness.snapshot() == before

    def test_a_third_job_takes_the_place_of_the_second(self, harness: Harness) -> None:
        """Who replaces a job that is blocked(replacing) waits for the same claimed one."""
        first = harness.place(State.RUNNING, key="k")
        second = _replace(harness)
        third = _replace(harness)
        job = harness.job(second)
        assert (job.state, job.reason, job.after) == (State.CANCELLED, Reason.REPLACED, None)
        job = harness.job(third)
        assert (job.state, job.reason, job.after) == (State.BLOCKED, Reason.REPLACING, first.job_id)
        assert harness.taken_by(key="k") == third
        assert harness.beat(first.worker).replaced == {first.worker: (first.ref,)}
        harness.finish(first.worker, first.ref, Move.RELEASE)
        assert harness.claimed_ids(first.worker) == [third]

    def test_several_replacements_in_one_call(self, harness: Harness) -> None:
        """Of several that replace one claimed job the last one runs after it."""
        old = harness.place(State.RUNNING, key="k")
        jobs: list[NewJob] = [harness.new_job(key="k", on_conflict=REPLACE) for _ in range(3)]
        assert harness.run(harness.verbs.enqueue(jobs)) == {}
        assert [harness.job(job.id).reason for job in jobs] == [Reason.REPLACED, Reason.REPLACED, Reason.REPLACING]
        harness.finish(old.worker, old.ref, Move.COMPLETE)
        assert harness.claimed_ids(old.worker) == [jobs[2].id]

    def test_a_replacement_that_runs_can_be_replaced(self, harness: Harness) -> None:
        """A chain of replacements runs one after the other."""
        first = harness.place(State.RUNNING, key="k")
        second = _replace(harness)
        harness.finish(first.worker, first.ref, Move.RETRY)
        ref = harness.claim_one(first.worker)
        third = _replace(harness)
        assert (ref.job_id, harness.job(third).after) == (second, second)
        harness.finish(first.worker, ref, Move.RETRY)
        assert harness.claimed_ids(first.worker) == [third]

    def test_a_dead_job_forgets_who_replaced_it(self, harness: Harness) -> None:
        """A job that died while another waited for it, once requeued, is tried again as any."""
        old = harness.place(State.RUNNING, key="k")
        new = _replace(harness)
        harness.finish(old.worker, old.ref, Move.DIE)
        harness.finish(old.worker, harness.claim_one(old.worker), Move.COMPLETE)
        assert harness.job(new).state is State.COMPLETED
        harness.run(change_job(harness.verbs, JobAction.RETRY, old.job_id))
        ref = harness.claim_one(old.worker)
        assert harness.beat(old.worker).replaced == {}
        harness.finish(old.worker, ref, Move.RETRY)
        assert harness.job(old.job_id).state is State.READY


class GivingBack:
    """A replacement that is cancelled in time leaves the old job as if nothing had been asked."""

    @pytest.mark.parametrize("state", sorted(CLAIMED))
    def test_a_cancelled_replacement_gives_the_key_back(self, harness: Harness, state: State) -> None:
        """The replacement ends as cancelled(requested); the old job has its key again and is replaced no more."""
        old = harness.place(state, key="k")
        new = _replace(harness)
        assert harness.run(cancel_job(harness.verbs, new)) is Cancellation.CANCELLED
        job = harness.job(new)
        assert (job.state, job.reason, job.after) == (State.CANCELLED, Reason.REQUESTED, None)
        assert job.finished_at == harness.clock.now()
        assert harness.beat(old.worker).replaced == {}
        assert harness.taken_by(key="k") == old.job_id
        harness.finish(old.worker, old.ref, Move.RETRY)
        assert _is_free(harness.job(old.job_id))
        assert harness.claimed_ids(old.worker) == [old.job_id]

    def test_the_key_that_came_back_is_kept(self, harness: Harness) -> None:
        """The old job keeps its key after its completion as it had asked."""
        old = harness.place(State.RUNNING, key="k", keep_key=timedelta(hours=1))
        harness.run(cancel_job(harness.verbs, _replace(harness)))
        harness.finish(old.worker, old.ref, Move.COMPLETE)
        assert harness.taken_by(key="k") == old.job_id

    def test_the_last_of_several_gives_it_back(self, harness: Harness) -> None:
        """What was replaced in between is gone; the key goes to the claimed job."""
        old = harness.place(State.RUNNING, key="k")
        _replace(harness)
        harness.run(cancel_job(harness.verbs, _replace(harness)))
        assert harness.beat(old.worker).replaced == {}
        assert harness.taken_by(key="k") == old.job_id

    def test_the_old_job_can_be_replaced_again(self, harness: Harness) -> None:
        """Having the key again, the old job is replaced as before."""
        old = harness.place(State.RUNNING, key="k")
        harness.run(cancel_job(harness.verbs, _replace(harness)))
        new = _replace(harness)
        assert harness.job(new).after == old.job_id
        assert harness.beat(old.worker).replaced == {old.worker: (old.ref,)}

    def test_after_the_old_job_ended_there_is_nobody_to_give_it_to(self, harness: Harness) -> None:
        """A replacement that was free already and is cancelled then gives the key free."""
        old = harness.place(State.RUNNING, key="k", keep_key=timedelta(hours=1))
        new = _replace(harness)
        harness.finish(old.worker, old.ref, Move.COMPLETE)
        assert harness.run(cancel_job(harness.verbs, new)) is Cancellation.CANCELLED
        assert harness.taken_by(key="k") is None
