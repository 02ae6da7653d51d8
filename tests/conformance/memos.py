"""What a job writes down for its later attempts: under its claim, in order, and for as long as there is the job."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from conformance.harness import Harness, Placed, new_save
from standfast.model.crash import DeathKind
from standfast.model.job import ClaimRef, JobAction, Verdict
from standfast.model.memos import Memo
from standfast.model.states import Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import WorkerBeat

DAY = timedelta(days=1)
EVERY_BYTE = bytes(range(256))
LARGE = EVERY_BYTE * 1024
MANY = 1000


class WritingDown:
    """A save is written under its claim; the later one stays, however late an earlier one arrives."""

    def test_memos_come_by_name(self, harness: Harness) -> None:
        """All that was saved is there, in the order of the names as the code points of their letters go."""
        placed = harness.place(State.RUNNING)
        names = ["b", "a", "B", "_", "%", "é", "step:a", "step:A", "step:a b", "aa", "\N{GRINNING FACE}"]
        assert harness.save(placed.worker, placed.ref, 1, dict.fromkeys(names, b"1")) is Verdict.ACCEPTED
        assert harness.run(harness.verbs.memos(placed.job_id)) == tuple(Memo(name, b"1") for name in sorted(names))

    def test_a_claim_that_has_not_started_saves_too(self, harness: Harness) -> None:
        """That a claim is valid is enough."""
        placed = harness.place(State.HELD)
        assert harness.save(placed.worker, placed.ref, 1, {"cursor": b"1"}) is Verdict.ACCEPTED
        assert harness.memos(placed.job_id) == {"cursor": b"1"}

    @pytest.mark.parametrize("body", [b"", EVERY_BYTE, LARGE], ids=["empty", "every byte", "large"])
    def test_bodies_are_kept_byte_for_byte(self, harness: Harness, body: bytes) -> None:
        """Whatever is in them."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 1, {"cursor": body})
        assert harness.memos(placed.job_id) == {"cursor": body}

    def test_many_memos(self, harness: Harness) -> None:
        """A job may have a thousand, written at once."""
        placed = harness.place(State.RUNNING)
        memos = {f"step:{number}": str(number).encode() for number in range(MANY)}
        assert harness.save(placed.worker, placed.ref, 1, memos) is Verdict.ACCEPTED
        assert harness.memos(placed.job_id) == memos

    def test_later_saves_write_over_earlier_ones(self, harness: Harness) -> None:
        """Each memo by itself: what a save does not name stays."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 1, {"cursor": b"1", "step:a": b"1"})
        harness.save(placed.worker, placed.ref, 2, {"cursor": b"2", "step:b": b"2"})
        assert harness.memos(placed.job_id) == {"cursor": b"2", "step:a": b"1", "step:b": b"2"}

    def test_a_save_that_arrives_late_writes_over_nothing(self, harness: Harness) -> None:
        """It is accepted, and of it only that is written which no later save has written."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 10, {"cursor": b"10"})
        late = {"cursor": b"9", "step:a": b"9"}
        assert harness.save(placed.worker, placed.ref, 9, late) is Verdict.ACCEPTED
        assert harness.memos(placed.job_id) == {"cursor": b"10", "step:a": b"9"}

    def test_a_save_that_is_repeated_late_writes_over_nothing(self, harness: Harness) -> None:
        """A save whose answer was lost, and that comes again after the next one, changes nothing."""
        placed = harness.place(State.RUNNING)
        for number in (1, 2):
            harness.save(placed.worker, placed.ref, number, {"cursor": str(number).encode()})
        before = harness.snapshot()
        assert harness.save(placed.worker, placed.ref, 1, {"cursor": b"1"}) is Verdict.ACCEPTED
        assert harness.snapshot() == before

    def test_a_later_claim_writes_over_all_of_an_earlier_one(self, harness: Harness) -> None:
        """However many saves the earlier claim made, the first of the later claim comes after them."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 1000, {"cursor": b"old", "step:a": b"old"})
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        ref = harness.claim_one(placed.worker)
        assert harness.save(placed.worker, ref, 1, {"cursor": b"new"}) is Verdict.ACCEPTED
        assert harness.memos(placed.job_id) == {"cursor": b"new", "step:a": b"old"}

    @pytest.mark.parametrize("numbers", [(1, 2), (2, 1)])
    def test_saves_of_one_claim_in_one_call(self, harness: Harness, numbers: tuple[int, int]) -> None:
        """In whatever order they come, the later one stays."""
        placed = harness.place(State.RUNNING)
        saves = [new_save(placed.ref, number, {"cursor": str(number).encode()}) for number in numbers]
        assert harness.run(harness.verbs.save(placed.worker, saves)) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
        assert harness.memos(placed.job_id) == {"cursor": b"2"}

    def test_a_stale_save_does_not_spoil_its_batch(self, harness: Harness) -> None:
        """Each save of a batch is judged alone, and the verdicts come in the order of the saves."""
        worker = harness.register()
        jobs = [harness.enqueue(), harness.enqueue()]
        first, second = (claim.ref for claim in harness.claim(worker))
        other = harness.place(State.RUNNING, queue="other")
        saves = [
            new_save(first, 1, {"cursor": b"1"}),
            new_save(ClaimRef(second.job_id, second.fence + 1), 1, {"cursor": b"2"}),
            new_save(other.ref, 1, {"cursor": b"3"}),
            new_save(second, 1, {"cursor": b"4", "step:a": b"4"}),
        ]
        stale, accepted = Verdict.STALE, Verdict.ACCEPTED
        assert harness.run(harness.verbs.save(worker, saves)) == (accepted, stale, stale, accepted)
        assert [harness.memos(job_id) for job_id in jobs] == [{"cursor": b"1"}, {"cursor": b"4", "step:a": b"4"}]
        assert harness.memos(other.job_id) == {}

    def test_nothing_to_write(self, harness: Harness) -> None:
        """No saves have no verdict; a save without memos has one as any other."""
        placed = harness.place(State.RUNNING)
        assert harness.run(harness.verbs.save(placed.worker, [])) == ()
        assert harness.save(placed.worker, placed.ref, 1, {}) is Verdict.ACCEPTED
        assert harness.save("nobody", placed.ref, 1, {}) is Verdict.STALE
        assert harness.memos(placed.job_id) == {}

    def test_a_job_that_is_not_there_has_none(self, harness: Harness) -> None:
        """To look for them is not an error."""
        harness.place(State.RUNNING)
        assert harness.run(harness.verbs.memos("unknown")) == ()


def _released(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.RELEASE)


def _retried(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.RETRY, delay=timedelta(minutes=1))


def _snoozed(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=timedelta(minutes=1))


def _blocked(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.BLOCK, reason="so")


def _reconciled(harness: Harness, placed: Placed) -> None:
    harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, closed_call=10**6)))


def _crashed(harness: Harness, placed: Placed) -> None:
    harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))


def _vanished(harness: Harness, placed: Placed) -> None:
    harness.bury(placed.worker, DeathKind.VANISHED)


def _completed(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=b"1")


def _dead(harness: Harness, placed: Placed) -> None:
    harness.finish(placed.worker, placed.ref, Move.DIE)


def _requeued(harness: Harness, placed: Placed) -> None:
    _dead(harness, placed)
    harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))


def _discarded(harness: Harness, placed: Placed) -> None:
    _dead(harness, placed)
    harness.run(change_job(harness.verbs, JobAction.DISCARD, placed.job_id))


def _cancelled(harness: Harness, placed: Placed) -> None:
    harness.run(cancel_job(harness.verbs, placed.job_id))
    _retried(harness, placed)


WHAT_HAPPENS: list[Callable[[Harness, Placed], None]] = [
    *(_released, _retried, _snoozed, _blocked, _reconciled, _crashed, _vanished),
    *(_completed, _dead, _requeued, _discarded, _cancelled),
]


class KeepingMemos:
    """Memos stay until their job is forgotten."""

    @pytest.mark.parametrize("happens", WHAT_HAPPENS, ids=lambda happens: happens.__name__.lstrip("_"))
    def test_memos_outlive_the_claim(self, harness: Harness, happens: Callable[[Harness, Placed], None]) -> None:
        """However it ends, and the next claim finds them."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 1, {"cursor": EVERY_BYTE, "step:a": b"1"})
        happens(harness, placed)
        assert harness.memos(placed.job_id) == {"cursor": EVERY_BYTE, "step:a": b"1"}

    @pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED])
    def test_memos_go_with_their_job(self, harness: Harness, state: State) -> None:
        """They go with it and not with another; and a job that comes later by the same id has none of them."""
        move = Move.COMPLETE if state is State.COMPLETED else Move.CANCEL
        kept = harness.place(State.RUNNING)
        harness.save(kept.worker, kept.ref, 1, {"cursor": b"kept"})
        gone = harness.place(State.RUNNING)
        harness.save(gone.worker, gone.ref, 1, {"cursor": b"1", "step:a": b"1"})
        assert harness.signal(gone.job_id, "go")
        harness.finish(gone.worker, gone.ref, move)
        harness.clock.advance(DAY.total_seconds())
        assert harness.run(harness.verbs.forget_jobs(DAY, 100)) == 1
        assert harness.memos(gone.job_id) == {}
        assert harness.memos(kept.job_id) == {"cursor": b"kept"}
        harness.enqueue(id=gone.job_id)
        assert harness.memos(gone.job_id) == {}

    def test_memos_are_of_one_job(self, harness: Harness) -> None:
        """What a job writes under a name is not what another wrote under the same."""
        placed = [harness.place(State.RUNNING) for _ in range(2)]
        for each in placed:
            harness.save(each.worker, each.ref, 1, {"cursor": each.job_id.encode()})
        assert [harness.memos(each.job_id) for each in placed] == [
            {"cursor": each.job_id.encode()} for each in placed
        ]
