"""A key is unique among the unfinished jobs of its task, and for a while after a completion."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from conformance.harness import TASK, Harness
from standfast.errors import KeyTakenError
from standfast.model.job import JobAction, NewJob, OnConflict
from standfast.model.states import CLAIMED, WAITING, Move, State
from standfast.stores.contract import cancel_job, change_job, count_states

HOUR = timedelta(hours=1)


def _enqueue(harness: Harness, *jobs: NewJob) -> Mapping[str, str]:
    return harness.run(harness.verbs.enqueue(jobs))


class Keys:
    """Who has a key, and until when."""

    @pytest.mark.parametrize("state", sorted(WAITING | CLAIMED))
    def test_an_unfinished_job_has_its_key(self, harness: Harness, state: State) -> None:
        """A second job with the key is not stored; the caller is told which job has it."""
        placed = harness.place(state, key="k")
        before = harness.snapshot()
        assert harness.taken_by(key="k") == placed.job_id
        assert harness.snapshot() == before

    def test_a_job_shows_its_key(self, harness: Harness) -> None:
        """The key is seen by anyone; most jobs have none."""
        assert harness.job(harness.enqueue(key="order 42 / ☂")).key == "order 42 / ☂"
        assert harness.job(harness.enqueue()).key is None

    def test_jobs_without_a_key_never_meet(self, harness: Harness) -> None:
        """No key is not a key."""
        assert harness.taken_by() is None
        assert harness.taken_by(on_conflict=OnConflict.RAISE) is None
        assert harness.taken_by(on_conflict=OnConflict.REPLACE) is None
        assert harness.run(count_states(harness.verbs))[State.READY] == 3

    def test_a_key_belongs_to_its_task(self, harness: Harness) -> None:
        """The same key of another task is another key, whatever queue either is in."""
        holder = harness.enqueue(key="k", task="a", queue="q")
        assert harness.taken_by(key="k", task="b", queue="q") is None
        assert harness.taken_by(key="k", task="a", queue="r") == holder
        assert harness.taken_by(key="K", task="a") is None

    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
    def test_dead_and_cancelled_jobs_free_it(self, harness: Harness, state: State) -> None:
        """A job that did not complete stands in nobody's way, however long its key was to be kept."""
        harness.place(state, key="k", keep_key=HOUR)
        assert harness.taken_by(key="k") is None

    def test_a_cancelled_wish_frees_it(self, harness: Harness) -> None:
        """A job that its caller cancelled gives its key free at once."""
        placed = harness.place(State.SCHEDULED, key="k", keep_key=HOUR)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        assert harness.taken_by(key="k") is None

    def test_completion_frees_it(self, harness: Harness) -> None:
        """Without a time to keep it, the key is free with the completion."""
        harness.place(State.COMPLETED, key="k")
        assert harness.taken_by(key="k", keep_key=HOUR) is None

    def test_a_key_is_kept_after_completion(self, harness: Harness) -> None:
        """A completed job has its key for the time that it asked for, counted from its completion."""
        placed = harness.place(State.RUNNING, key="k", keep_key=timedelta(seconds=60))
        harness.clock.advance(100)
        harness.finish(placed.worker, placed.ref, Move.COMPLETE)
        assert harness.taken_by(key="k") == placed.job_id
        harness.clock.advance(59.999)
        assert harness.taken_by(key="k") == placed.job_id
        harness.clock.advance(0.001)
        assert harness.taken_by(key="k") is None

    def test_a_job_that_is_tried_again_keeps_its_key(self, harness: Harness) -> None:
        """A failure is not an end."""
        placed = harness.place(State.RUNNING, key="k")
        harness.finish(placed.worker, placed.ref, Move.RETRY, delay=HOUR)
        assert harness.taken_by(key="k") == placed.job_id

    def test_the_last_accepted_job_has_it(self, harness: Harness) -> None:
        """What becomes of an earlier job with the key does not touch the one that has it now."""
        first = harness.place(State.DEAD, key="k")
        second = harness.enqueue(key="k")
        harness.run(change_job(harness.verbs, JobAction.DISCARD, first.job_id))
        assert harness.taken_by(key="k") == second

    def test_a_key_can_be_used_again_and_again(self, harness: Harness) -> None:
        """Each job that ended makes room for the next."""
        for state in (State.COMPLETED, State.CANCELLED, State.DEAD, State.COMPLETED):
            placed = harness.place(state, key="k")
            assert harness.job(placed.job_id).state is state
        assert [job.key for job in harness.snapshot().jobs] == ["k"] * 4

    @pytest.mark.parametrize("on_conflict", list(OnConflict))
    def test_a_known_id_is_left_as_it_is(self, harness: Harness, on_conflict: OnConflict) -> None:
        """A repeated enqueue changes nothing, even if its key is someone else's by now."""
        first = harness.new_job(key="k", on_conflict=on_conflict)
        _enqueue(harness, first)
        worker = harness.register()
        harness.finish(worker, harness.claim_one(worker), Move.COMPLETE)
        harness.enqueue(key="k")
        before = harness.snapshot()
        assert _enqueue(harness, first) == {first.id: first.id}
        assert harness.snapshot() == before

    def test_jobs_of_one_call_meet_each_other(self, harness: Harness) -> None:
        """Of several jobs with one key in one call the first is stored, and the others are told of it."""
        jobs = [harness.new_job(key=key) for key in ("k", "other", "k", None, "k")]
        assert _enqueue(harness, *jobs) == {jobs[2].id: jobs[0].id, jobs[4].id: jobs[0].id}
        assert {job.id for job in harness.snapshot().jobs} == {jobs[0].id, jobs[1].id, jobs[3].id}

    def test_a_call_brings_some_and_leaves_others(self, harness: Harness) -> None:
        """A job that met another does not keep the rest of its call from being stored."""
        holder = harness.enqueue(key="taken")
        jobs = [harness.new_job(key=key) for key in ("free", "taken", "also free")]
        assert _enqueue(harness, *jobs) == {jobs[1].id: holder}
        assert harness.run(harness.verbs.get(jobs[1].id)) is None
        assert harness.job(jobs[2].id).state is State.READY


class RefusingKeys:
    """Who wants an error where a key is taken gets it, and nothing else happens."""

    def test_raise_tells_who_has_it(self, harness: Harness) -> None:
        """The error names the task, the key, the job that has it and its state."""
        placed = harness.place(State.HELD, key="order-42")
        with pytest.raises(KeyTakenError) as refusal:
            harness.enqueue(key="order-42", on_conflict=OnConflict.RAISE)
        for word in (TASK, "order-42", placed.job_id, "held"):
            assert word in str(refusal.value)

    def test_raise_stores_nothing_of_the_call(self, harness: Harness) -> None:
        """What the call would have stored or replaced before the conflict stays as it was."""
        harness.enqueue(key="waiting")
        harness.place(State.RUNNING, key="claimed", queue="q")
        harness.enqueue(key="taken")
        before = harness.snapshot()
        jobs = [
            harness.new_job(),
            harness.new_job(key="free"),
            harness.new_job(key="waiting", on_conflict=OnConflict.REPLACE),
            harness.new_job(key="claimed", on_conflict=OnConflict.REPLACE),
            harness.new_job(key="taken", on_conflict=OnConflict.RAISE),
            harness.new_job(),
        ]
        with pytest.raises(KeyTakenError):
            _enqueue(harness, *jobs)
        assert harness.snapshot() == before
        assert harness.beat(before.workers[0].info.id).replaced == {}
        assert harness.taken_by(key="free") is None

    def test_raise_within_one_call(self, harness: Harness) -> None:
        """An earlier job of the same call is a conflict like any other."""
        jobs = [harness.new_job(key="k"), harness.new_job(key="k", on_conflict=OnConflict.RAISE)]
        with pytest.raises(KeyTakenError, match=jobs[0].id):
            _enqueue(harness, *jobs)
        assert harness.snapshot().jobs == ()

    def test_raise_while_the_key_is_kept(self, harness: Harness) -> None:
        """A completed job whose key is kept is a conflict, and no longer than that."""
        harness.place(State.COMPLETED, key="k", keep_key=HOUR)
        with pytest.raises(KeyTakenError, match="completed"):
            harness.enqueue(key="k", on_conflict=OnConflict.RAISE)
        harness.clock.advance(3600)
        assert harness.taken_by(key="k", on_conflict=OnConflict.RAISE) is None

    @pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED])
    def test_a_free_key_raises_nothing(self, harness: Harness, state: State) -> None:
        """Jobs that ended are no conflict."""
        harness.place(state, key="k")
        assert harness.taken_by(key="k", on_conflict=OnConflict.RAISE) is None


class RevivingKeys:
    """A dead job that is requeued takes its key again, or stays dead."""

    def test_a_requeued_job_has_its_key_again(self, harness: Harness) -> None:
        """Nobody took the key meanwhile, or who took it has ended."""
        dead = harness.place(State.DEAD, key="k")
        harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        assert harness.taken_by(key="k") == dead.job_id

    @pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED])
    def test_a_key_that_others_had_comes_back(self, harness: Harness, state: State) -> None:
        """Who took the key meanwhile and has ended does not keep it from the requeued job."""
        dead = harness.place(State.DEAD, key="k")
        harness.place(state, key="k")
        harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        assert harness.job(dead.job_id).state is State.READY
        assert harness.taken_by(key="k") == dead.job_id

    @pytest.mark.parametrize("state", sorted(WAITING | CLAIMED))
    def test_a_requeue_does_not_take_a_key_away(self, harness: Harness, state: State) -> None:
        """While an unfinished job has the key, a dead one with it stays dead, and the error says who has it."""
        dead = harness.place(State.DEAD, key="k")
        other = harness.place(state, key="k")
        before = harness.snapshot()
        with pytest.raises(KeyTakenError) as refusal:
            harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        for word in (TASK, "k", other.job_id, state):
            assert word in str(refusal.value)
        assert harness.snapshot() == before

    def test_a_kept_key_is_not_taken_away_either(self, harness: Harness) -> None:
        """A completed job whose key is kept holds it against a requeue too, until its time is over."""
        dead = harness.place(State.DEAD, key="k")
        harness.place(State.COMPLETED, key="k", keep_key=HOUR)
        with pytest.raises(KeyTakenError):
            harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        harness.clock.advance(3600)
        harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        assert harness.job(dead.job_id).state is State.READY

    def test_a_scheduled_job_is_made_due_with_its_key(self, harness: Harness) -> None:
        """A scheduled job has its key already."""
        placed = harness.place(State.SCHEDULED, key="k")
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        assert harness.job(placed.job_id).state is State.READY
        assert harness.taken_by(key="k") == placed.job_id
