"""A reply lost on the wire is never a lost or doubled job: every write may be repeated."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import LEASE, Harness, new_save
from standfast.errors import JobStateError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Cancellation, Ending, Failure, JobAction, OnConflict, Progress, Verdict
from standfast.model.memos import FOR_EVER, signal_reason
from standfast.model.states import ENDINGS, Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import WorkerBeat, WorkerInfo
from standfast.stores.verb import Verb

Repeatable = tuple[Callable[[], Verb[Any]], object]
"""A write as it is sent each time, and the answer that its repetition must get."""


def _enqueue(harness: Harness) -> Repeatable:
    jobs = [harness.new_job(), harness.new_job(delay=timedelta(seconds=60))]
    return lambda: harness.verbs.enqueue(jobs), {}


def _enqueue_with_keys(harness: Harness) -> Repeatable:
    harness.place(State.HELD, key="claimed")
    waiting = harness.place(State.READY, key="waiting")
    jobs = [
        harness.new_job(key="claimed", on_conflict=OnConflict.REPLACE),
        harness.new_job(key="claimed", on_conflict=OnConflict.REPLACE),
        harness.new_job(key="waiting"),
        harness.new_job(key="free", on_conflict=OnConflict.RAISE),
    ]
    return lambda: harness.verbs.enqueue(jobs), {jobs[2].id: waiting.job_id}


def _start(harness: Harness) -> Repeatable:
    placed = harness.place(State.HELD)
    started = [(placed.ref, harness.clock.now())]
    return lambda: harness.verbs.start(placed.worker, started), (Verdict.ACCEPTED,)


def _progress(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    reports = [(placed.ref, Progress(1, 3))]
    return lambda: harness.verbs.progress(placed.worker, reports), (Verdict.ACCEPTED,)


def _save(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    saves = [new_save(placed.ref, 1, {"cursor": b"1"}), new_save(placed.ref, 2, {"cursor": b"2", "step:a": b"3"})]
    return lambda: harness.verbs.save(placed.worker, saves), (Verdict.ACCEPTED, Verdict.ACCEPTED)


def _signal_running(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    return lambda: harness.verbs.signal(placed.job_id, "go", "t1", b"1"), True


def _signal_suspended(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("go"))
    return lambda: harness.verbs.signal(placed.job_id, "go", "t1", b"1"), True


def _cancel_waiting(harness: Harness) -> Repeatable:
    placed = harness.place(State.READY)
    return lambda: cancel_job(harness.verbs, placed.job_id), Cancellation.TOO_LATE


def _cancel_claimed(harness: Harness) -> Repeatable:
    placed = harness.place(State.HELD)
    return lambda: cancel_job(harness.verbs, placed.job_id), Cancellation.REQUESTED


def _cancel_replacement(harness: Harness) -> Repeatable:
    harness.place(State.RUNNING, key="k")
    replacement = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
    return lambda: cancel_job(harness.verbs, replacement), Cancellation.TOO_LATE


def _sweep(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=b"1", keep_result=timedelta(seconds=1))
    harness.clock.advance(1)
    return lambda: harness.verbs.forget_results(10), 0


def _pause(harness: Harness) -> Repeatable:
    return lambda: harness.verbs.pause("default"), None


def _resume(harness: Harness) -> Repeatable:
    harness.run(harness.verbs.pause("default"))
    return lambda: harness.verbs.resume("default"), None


def _register(harness: Harness) -> Repeatable:
    info = WorkerInfo("w", "s", "h", 1, timedelta(seconds=LEASE))
    return lambda: harness.verbs.register(info), None


def _reconcile(harness: Harness) -> Repeatable:
    beat = WorkerBeat(harness.place(State.HELD).worker, closed_call=10**6)
    return lambda: harness.verbs.reconcile(beat), ()


def _condemn(harness: Harness) -> Repeatable:
    worker = harness.register()
    harness.clock.advance(LEASE + 1)
    return lambda: harness.verbs.condemn(frozenset({worker})), frozenset({worker})


def _bury_crashed(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    death = Death(DeathKind.CRASHED, frozenset({placed.ref}), "signal 9")
    return lambda: harness.verbs.bury(placed.worker, death), ()


def _bury_vanished(harness: Harness) -> Repeatable:
    placed = harness.place(State.RUNNING)
    harness.expire(placed.worker)
    return lambda: harness.verbs.bury(placed.worker, Death(DeathKind.VANISHED)), ()


WRITES: list[Callable[[Harness], Repeatable]] = [
    _enqueue,
    _enqueue_with_keys,
    _start,
    _progress,
    _save,
    _signal_running,
    _signal_suspended,
    _cancel_waiting,
    _cancel_claimed,
    _cancel_replacement,
    _sweep,
    _pause,
    _resume,
    _register,
    _reconcile,
    _condemn,
    _bury_crashed,
    _bury_vanished,
]


class Idempotence:
    """Repeating a write succeeds and changes nothing more."""

    @pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.lstrip("_"))
    def test_a_repeated_write_changes_nothing(
        self, harness: Harness, write: Callable[[Harness], Repeatable]
    ) -> None:
        """A write that arrives a second time leaves everything as the first left it."""
        make, answer = write(harness)
        harness.run(make())
        before = harness.snapshot()
        assert harness.run(make()) == answer
        assert harness.snapshot() == before

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"delay": timedelta(minutes=1)},
            {"tags": ("t",)},
            {"key": "k"},
            {"start_within": timedelta(minutes=1)},
        ],
    )
    def test_a_repeated_enqueue_of_one_job_says_that_it_was_there(
        self, harness: Harness, fields: dict[str, Any]
    ) -> None:
        """Who enqueues under an id of its own learns whether that made the job, whatever became of it since."""
        job = harness.new_job(**fields)
        assert harness.run(harness.verbs.enqueue([job])) == {}
        for _ in range(2):
            before = harness.snapshot()
            assert harness.run(harness.verbs.enqueue([job])) == {job.id: job.id}
            assert harness.snapshot() == before
            harness.run(cancel_job(harness.verbs, job.id))

    @pytest.mark.parametrize("asked_to_cancel", [False, True])
    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_a_repeated_finish_is_accepted(self, harness: Harness, move: Move, *, asked_to_cancel: bool) -> None:
        """An ending whose reply was lost is accepted again, later too, and neither charges nor delays anew."""
        placed = harness.place(State.RUNNING)
        if asked_to_cancel:
            harness.run(cancel_job(harness.verbs, placed.job_id))
        failure = Failure("ValueError", "no", "Traceback ...")
        ending = Ending(placed.ref, move, delay=timedelta(minutes=5), reason="so", result=b"1", failure=failure)
        assert harness.run(harness.verbs.finish(placed.worker, [ending])) == (Verdict.ACCEPTED,)
        harness.clock.advance(3)
        before = harness.snapshot()
        assert harness.run(harness.verbs.finish(placed.worker, [ending])) == (Verdict.ACCEPTED,)
        assert harness.snapshot() == before

    def test_an_ending_twice_in_one_batch_counts_once(self, harness: Harness) -> None:
        """The same ending twice in one call charges one attempt."""
        placed = harness.place(State.RUNNING)
        ending = Ending(placed.ref, Move.RETRY)
        verdicts = harness.run(harness.verbs.finish(placed.worker, [ending, ending]))
        assert verdicts == (Verdict.ACCEPTED, Verdict.ACCEPTED)
        assert harness.job(placed.job_id).attempt == 1

    def test_a_repeated_finish_does_not_touch_the_next_claim(self, harness: Harness) -> None:
        """An ending repeated after the job went to someone else is accepted and leaves the new claim alone."""
        placed = harness.place(State.RUNNING)
        ending = Ending(placed.ref, Move.RETRY)
        harness.run(harness.verbs.finish(placed.worker, [ending]))
        harness.claim_one(harness.register())
        before = harness.snapshot()
        assert harness.run(harness.verbs.finish(placed.worker, [ending])) == (Verdict.ACCEPTED,)
        assert harness.snapshot() == before

    @pytest.mark.parametrize("second", sorted(ENDINGS))
    def test_the_first_ending_stands(self, harness: Harness, second: Move) -> None:
        """A claim ends once: another ending for the same fence changes nothing."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=b"first")
        before = harness.snapshot()
        assert harness.finish(placed.worker, placed.ref, second, result=b"second") is Verdict.ACCEPTED
        assert harness.snapshot() == before

    def test_a_repeated_enqueue_does_not_reset_a_job(self, harness: Harness) -> None:
        """Enqueueing a known id again, in whatever state the job is and with whatever else it says, is ignored."""
        job = harness.new_job()
        worker = harness.register()
        harness.run(harness.verbs.enqueue([job]))
        harness.finish(worker, harness.claim_one(worker), Move.COMPLETE, result=b"1")
        before = harness.snapshot()
        other = harness.new_job(id=job.id, priority=9, queue="other")
        fresh = harness.new_job(delay=timedelta(hours=1))
        harness.run(harness.verbs.enqueue([job, other, fresh]))
        after = harness.snapshot()
        assert after.jobs[1:] == before.jobs
        assert after.jobs[0].id == fresh.id

    def test_an_id_twice_in_one_batch_is_one_job(self, harness: Harness) -> None:
        """The first of two jobs with one id is taken."""
        first = harness.new_job()
        harness.run(harness.verbs.enqueue([first, harness.new_job(id=first.id, priority=9)]))
        assert [job.priority for job in harness.snapshot().jobs] == [0]

    def test_a_repeated_beat_answers_the_same(self, harness: Harness) -> None:
        """A beat sent twice at the same moment brings the same answer and changes nothing more."""
        placed = harness.place(State.HELD)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        beat = WorkerBeat(placed.worker, 10**6)
        answer = harness.run(harness.verbs.beat([beat]))
        before = harness.snapshot()
        assert harness.run(harness.verbs.beat([beat])) == answer
        assert harness.snapshot() == before

    def test_registering_again_does_not_raise_the_dead(self, harness: Harness) -> None:
        """A worker that is marked dead stays so when its registration arrives once more."""
        info = WorkerInfo("w", "s", "h", 1, timedelta(seconds=LEASE))
        harness.run(harness.verbs.register(info))
        harness.expire("w")
        harness.run(harness.verbs.register(info))
        assert harness.beat("w").accepted == frozenset()

    def test_requeue_and_discard_happen_once(self, harness: Harness) -> None:
        """What is no longer dead is not requeued or discarded again: the second call is refused."""
        for queue, action in (("a", JobAction.RETRY), ("b", JobAction.DISCARD)):
            placed = harness.place(State.DEAD, queue=queue)
            harness.run(change_job(harness.verbs, action, placed.job_id))
            before = harness.snapshot()
            with pytest.raises(JobStateError):
                harness.run(change_job(harness.verbs, action, placed.job_id))
            assert harness.snapshot() == before
