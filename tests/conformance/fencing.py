"""The first promise: at most one claim of a job is valid, and no other can write."""

from collections.abc import Callable

import pytest

from conformance.harness import Harness
from standfast.model.crash import DeathKind
from standfast.model.job import ClaimRef, Ending, Failure, JobAction, Progress, Verdict
from standfast.model.states import ENDINGS, Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import WorkerBeat

Stale = tuple[str, ClaimRef]
"""A worker and a claim that it wrongly believes to have."""


def _buried(harness: Harness) -> Stale:
    placed = harness.place(State.RUNNING)
    harness.bury(placed.worker, DeathKind.CRASHED)
    return placed.worker, placed.ref


def _reclaimed_after_burial(harness: Harness) -> Stale:
    placed = harness.place(State.RUNNING)
    harness.bury(placed.worker, DeathKind.VANISHED)
    harness.claim_one(harness.register())
    return placed.worker, placed.ref


def _dead_by_burial(harness: Harness) -> Stale:
    placed = harness.place(State.RUNNING, max_attempts=1)
    harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))
    assert harness.job(placed.job_id).state is State.DEAD
    return placed.worker, placed.ref


def _cancelled_by_burial(harness: Harness) -> Stale:
    placed = harness.place(State.RUNNING)
    harness.run(cancel_job(harness.verbs, placed.job_id))
    harness.bury(placed.worker, DeathKind.STOPPED)
    assert harness.job(placed.job_id).state is State.CANCELLED
    return placed.worker, placed.ref


def _released_by_reconcile(harness: Harness) -> Stale:
    placed = harness.place(State.RUNNING)
    harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, closed_call=10**6)))
    return placed.worker, placed.ref


def _reclaimed_by_itself(harness: Harness) -> Stale:
    worker, ref = _released_by_reconcile(harness)
    harness.claim_one(worker)
    return worker, ref


def _of_another_worker(harness: Harness) -> Stale:
    return harness.register(), harness.place(State.RUNNING).ref


def _of_an_unknown_worker(harness: Harness) -> Stale:
    return "nobody", harness.place(State.HELD).ref


def _of_a_fence_to_come(harness: Harness) -> Stale:
    placed = harness.place(State.HELD)
    return placed.worker, ClaimRef(placed.job_id, placed.ref.fence + 1)


def _never_claimed(harness: Harness) -> Stale:
    placed = harness.place(State.READY)
    return placed.worker, placed.ref


def _no_such_job(harness: Harness) -> Stale:
    return harness.register(), ClaimRef("01900000-0000-7000-8000-ffffffffffff", 1)


WAYS_TO_BE_STALE: list[Callable[[Harness], Stale]] = [
    _reclaimed_after_burial,
    _buried,
    _dead_by_burial,
    _cancelled_by_burial,
    _released_by_reconcile,
    _reclaimed_by_itself,
    _of_another_worker,
    _of_an_unknown_worker,
    _of_a_fence_to_come,
    _never_claimed,
    _no_such_job,
]


def _name(way: Callable[[Harness], Stale]) -> str:
    return way.__name__.lstrip("_")


class Fencing:
    """Stale writes are refused and change nothing."""

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    @pytest.mark.parametrize("way", WAYS_TO_BE_STALE, ids=_name)
    def test_stale_finish_is_refused(self, harness: Harness, way: Callable[[Harness], Stale], move: Move) -> None:
        """A claim that is not the valid one cannot end the job, and changes nothing in trying."""
        worker, ref = way(harness)
        before = harness.snapshot()
        verdict = harness.finish(worker, ref, move, reason="stale", result=b"0", failure=Failure("Stale", "write"))
        assert verdict is Verdict.STALE
        assert harness.snapshot() == before

    @pytest.mark.parametrize("way", WAYS_TO_BE_STALE, ids=_name)
    def test_a_stale_plain_success_is_refused(self, harness: Harness, way: Callable[[Harness], Stale]) -> None:
        """Nor by the shortest way, which most jobs go: a success about which there is no more to say."""
        worker, ref = way(harness)
        before = harness.snapshot()
        assert harness.finish(worker, ref, Move.COMPLETE) is Verdict.STALE
        assert harness.snapshot() == before

    @pytest.mark.parametrize("way", WAYS_TO_BE_STALE, ids=_name)
    def test_stale_start_is_refused(self, harness: Harness, way: Callable[[Harness], Stale]) -> None:
        """A claim that is not the valid one cannot mark the job as running."""
        worker, ref = way(harness)
        before = harness.snapshot()
        assert harness.start(worker, ref) is Verdict.STALE
        assert harness.snapshot() == before

    @pytest.mark.parametrize("way", WAYS_TO_BE_STALE, ids=_name)
    def test_stale_progress_is_refused(self, harness: Harness, way: Callable[[Harness], Stale]) -> None:
        """A claim that is not the valid one cannot report progress."""
        worker, ref = way(harness)
        before = harness.snapshot()
        assert harness.run(harness.verbs.progress(worker, [(ref, Progress(1, 2))])) == (Verdict.STALE,)
        assert harness.snapshot() == before

    @pytest.mark.parametrize("way", WAYS_TO_BE_STALE, ids=_name)
    def test_stale_save_is_refused(self, harness: Harness, way: Callable[[Harness], Stale]) -> None:
        """A claim that is not the valid one cannot write down anything."""
        worker, ref = way(harness)
        before = harness.snapshot()
        assert harness.save(worker, ref, 1, {"cursor": b"1"}) is Verdict.STALE
        assert harness.snapshot() == before
        assert harness.memos(ref.job_id) == {}

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_an_ended_claim_neither_starts_nor_reports(self, harness: Harness, move: Move) -> None:
        """Once its worker has ended it, a claim can still be ended again, and nothing else."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, move)
        before = harness.snapshot()
        assert harness.start(placed.worker, placed.ref) is Verdict.STALE
        report = harness.verbs.progress(placed.worker, [(placed.ref, Progress(1, 2))])
        assert harness.run(report) == (Verdict.STALE,)
        assert harness.save(placed.worker, placed.ref, 1, {"cursor": b"1"}) is Verdict.STALE
        assert harness.snapshot() == before

    def test_a_stale_ending_does_not_spoil_its_batch(self, harness: Harness) -> None:
        """Each write of a batch is judged alone, and the verdicts come in the order of the writes."""
        placed = harness.place(State.HELD)
        stale = ClaimRef(placed.job_id, placed.ref.fence + 1)
        other = harness.place(State.HELD, queue="other")
        endings = [Ending(stale, Move.DIE), Ending(placed.ref, Move.COMPLETE), Ending(other.ref, Move.COMPLETE)]
        verdicts = harness.run(harness.verbs.finish(placed.worker, endings))
        assert verdicts == (Verdict.STALE, Verdict.ACCEPTED, Verdict.STALE)
        assert harness.job(placed.job_id).state is State.COMPLETED
        assert harness.job(other.job_id).state is State.HELD

    def test_stale_starts_and_reports_do_not_spoil_their_batch(self, harness: Harness) -> None:
        """Starts and reports of a batch are judged one by one as endings are."""
        placed = harness.place(State.HELD)
        stale = ClaimRef(placed.job_id, placed.ref.fence + 1)
        now = harness.clock.now()
        verdicts = harness.run(harness.verbs.start(placed.worker, [(stale, now), (placed.ref, now)]))
        assert verdicts == (Verdict.STALE, Verdict.ACCEPTED)
        reports = [(placed.ref, Progress(1)), (stale, Progress(9))]
        assert harness.run(harness.verbs.progress(placed.worker, reports)) == (Verdict.ACCEPTED, Verdict.STALE)
        assert harness.job(placed.job_id).progress == Progress(1)

    def test_each_claim_has_a_higher_fence(self, harness: Harness) -> None:
        """The fence grows at every claim and never goes back, whatever happened between."""
        worker = harness.register()
        job_id = harness.enqueue()
        fences = []
        for move in (Move.RETRY, Move.RELEASE, Move.SNOOZE, Move.DIE):
            ref = harness.claim_one(worker)
            fences.append(ref.fence)
            harness.finish(worker, ref, move)
        harness.run(change_job(harness.verbs, JobAction.RETRY, job_id))
        fences.append(harness.claim_one(worker).fence)
        assert fences == [1, 2, 3, 4, 5]
