"""Signals to jobs: kept until they are taken, never lost, and the end of every wait for them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from conformance.harness import Harness, Placed
from conformance.suspending import ALIKE, HOUR
from standfast.errors import JobNotFoundError, JobStateError
from standfast.model.memos import MEMOS_LIMIT, SLEEPING, signal_memo, signal_reason
from standfast.model.states import FINAL, Move, State
from standfast.stores.contract import cancel_job

EVERY_BYTE = bytes(range(256))
ROUNDS = 25


def _take(harness: Harness, worker: str) -> None:
    """Take a signal, as the handler of a job does that was waiting for it."""
    ref = harness.claim_one(worker)
    harness.save(worker, ref, 1, {"wait:go:1": b"taken", signal_memo("go", "t1"): b""})
    harness.finish(worker, ref, Move.RELEASE)


class Signalling:
    """A signal is kept until it is taken, and ends the wait for it."""

    def test_a_job_that_waits_for_it_is_ready(self, harness: Harness) -> None:
        """Due now and without a reason, the time until which it would have waited forgotten."""
        placed = harness.suspend("go", HOUR)
        harness.clock.advance(5)
        assert harness.signal(placed.job_id, "go", body=EVERY_BYTE)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.run_at) == (State.READY, None, harness.clock.now())
        assert harness.memos(placed.job_id) == {signal_memo("go", "t1"): EVERY_BYTE}
        assert harness.claim_one(placed.worker).job_id == placed.job_id

    @pytest.mark.parametrize("reason", [None, SLEEPING, "go", "so", signal_reason("stop")])
    def test_any_other_wait_goes_on(self, harness: Harness, reason: str | None) -> None:
        """The signal is kept, and nothing else changes."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=HOUR, reason=reason)
        before = harness.job(placed.job_id)
        assert harness.signal(placed.job_id, "go")
        assert harness.job(placed.job_id) == before
        assert harness.memos(placed.job_id) == {signal_memo("go", "t1"): b"1"}

    @pytest.mark.parametrize(("wanted", "sent"), ALIKE)
    def test_the_wait_for_another_name_goes_on(self, harness: Harness, wanted: str, sent: str) -> None:
        """Neither a name that begins alike nor one that a pattern would match is the one that is waited for."""
        placed = harness.suspend(wanted, HOUR)
        before = harness.job(placed.job_id)
        assert harness.signal(placed.job_id, sent)
        assert harness.job(placed.job_id) == before

    @pytest.mark.parametrize("state", sorted(set(State) - FINAL))
    def test_a_signal_to_a_job_that_does_not_wait_for_it(self, harness: Harness, state: State) -> None:
        """Whatever it does, the signal is kept for it, and it is not disturbed."""
        placed = harness.place(state)
        before = harness.job(placed.job_id)
        assert harness.signal(placed.job_id, "go")
        assert harness.job(placed.job_id) == before
        assert harness.memos(placed.job_id) == {signal_memo("go", "t1"): b"1"}

    @pytest.mark.parametrize("state", sorted(FINAL))
    def test_a_signal_that_comes_too_late(self, harness: Harness, state: State) -> None:
        """A job that is final gets none, and the sender is told so."""
        placed = harness.place(state)
        before = harness.snapshot()
        assert not harness.signal(placed.job_id, "go")
        assert harness.snapshot() == before
        assert harness.memos(placed.job_id) == {}

    def test_a_signal_to_nobody(self, harness: Harness) -> None:
        """A job that is not there gets none, and the sender is told so."""
        with pytest.raises(JobNotFoundError):
            harness.signal("unknown", "go")
        assert harness.memos("unknown") == {}

    def test_signals_come_in_the_order_of_their_tokens(self, harness: Harness) -> None:
        """Each is kept, also those of one name; the same token under two names are two signals."""
        placed = harness.place(State.RUNNING)
        for token, body in (("t2", b"2"), ("t1", b"1"), ("t10", b"3")):
            harness.signal(placed.job_id, "go", token, body)
        harness.signal(placed.job_id, "stop", "t1", b"4")
        assert list(harness.memos(placed.job_id).items()) == [
            (signal_memo("go", "t1"), b"1"),
            (signal_memo("go", "t10"), b"3"),
            (signal_memo("go", "t2"), b"2"),
            (signal_memo("stop", "t1"), b"4"),
        ]

    def test_a_token_that_is_known_changes_nothing(self, harness: Harness) -> None:
        """The first body stays, whatever a later one with its token says."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, "go", "t1", b"first")
        before = harness.snapshot()
        assert harness.signal(placed.job_id, "go", "t1", b"second")
        assert harness.snapshot() == before

    def test_a_signal_that_was_taken_does_not_come_back(self, harness: Harness) -> None:
        """Sent once more with its token, it neither wakes the job nor is there to be taken again."""
        placed = harness.suspend("go", HOUR)
        harness.signal(placed.job_id, "go")
        _take(harness, placed.worker)
        ref = harness.claim_one(placed.worker)
        again = harness.suspend("go", HOUR, Placed(placed.job_id, placed.worker, ref))
        before = harness.snapshot()
        assert harness.signal(again.job_id, "go")
        assert harness.snapshot() == before
        assert harness.memos(again.job_id)[signal_memo("go", "t1")] == b""

    def test_the_next_signal_after_one_that_was_taken(self, harness: Harness) -> None:
        """A new token is a new signal, and ends the next wait."""
        placed = harness.suspend("go", HOUR)
        harness.signal(placed.job_id, "go")
        _take(harness, placed.worker)
        ref = harness.claim_one(placed.worker)
        harness.suspend("go", HOUR, Placed(placed.job_id, placed.worker, ref))
        assert harness.signal(placed.job_id, "go", "t2")
        assert harness.job(placed.job_id).state is State.READY

    def test_no_job_is_sent_signals_without_end(self, harness: Harness) -> None:
        """The sender of one too many is told; one that was sent before is accepted again, as ever."""
        placed = harness.place(State.RUNNING)
        sent = {signal_memo("go", f"s{number:04}"): b"1" for number in range(MEMOS_LIMIT - 1)}
        harness.save(placed.worker, placed.ref, 1, {**sent, "step:a": b"1", "wait:go:1": b"2"})
        assert harness.signal(placed.job_id, "go")
        before = harness.snapshot()
        with pytest.raises(JobStateError, match=f"was sent {MEMOS_LIMIT:,} signals"):
            harness.signal(placed.job_id, "stop", "t2")
        assert harness.signal(placed.job_id, "go")
        assert harness.snapshot() == before

    def test_other_jobs_are_left_alone(self, harness: Harness) -> None:
        """Of two that wait for a signal of one name, only that goes on to which it was sent."""
        placed, other = harness.suspend("go", HOUR), harness.suspend("go", HOUR, queue="other")
        before = harness.job(other.job_id)
        harness.signal(placed.job_id, "go")
        assert harness.job(other.job_id) == before
        assert harness.memos(other.job_id) == {}

    def test_what_is_due_already_keeps_its_place(self, harness: Harness) -> None:
        """A job whose time came before the signal did is not put behind those that came meanwhile."""
        placed = harness.suspend("go", HOUR)
        harness.clock.advance(HOUR.total_seconds())
        harness.claim(harness.register(), queues=("other",))
        due_since = harness.job(placed.job_id).run_at
        harness.clock.advance(5)
        assert harness.signal(placed.job_id, "go")
        job = harness.job(placed.job_id)
        assert (job.state, job.run_at) == (State.READY, due_since)
        assert harness.memos(placed.job_id) == {signal_memo("go", "t1"): b"1"}

    def test_a_signal_does_not_open_a_paused_queue(self, harness: Harness) -> None:
        """A job there is ready, and waits for the queue."""
        placed = harness.suspend("go", HOUR)
        harness.run(harness.verbs.pause("default"))
        harness.signal(placed.job_id, "go")
        assert harness.job(placed.job_id).state is State.READY
        assert harness.claim(placed.worker) == ()
        harness.run(harness.verbs.resume("default"))
        assert harness.claim_one(placed.worker).job_id == placed.job_id

    def test_a_signal_and_a_wait_at_once(self, harness: Harness) -> None:
        """Sent while the job gives its slot back, a signal ends the wait, whichever of the two comes first."""
        barrier = Barrier(2)

        def suspend(placed: Placed) -> None:
            barrier.wait()
            harness.suspend("go", HOUR, placed)

        def send(placed: Placed) -> None:
            barrier.wait()
            harness.signal(placed.job_id, "go")

        with ThreadPoolExecutor(2) as threads:
            for _ in range(ROUNDS):
                placed = harness.place(State.RUNNING)
                for done in [threads.submit(suspend, placed), threads.submit(send, placed)]:
                    done.result()
                assert harness.job(placed.job_id).state is State.READY
                harness.run(cancel_job(harness.verbs, placed.job_id))

    def test_signals_sent_at_once(self, harness: Harness) -> None:
        """Each token counts once, from however many threads it is sent."""
        placed = harness.suspend("go", HOUR)
        tokens = [f"t{number % 4}" for number in range(12)]
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda token: harness.signal(placed.job_id, "go", token), tokens))
        assert sorted(harness.memos(placed.job_id)) == [signal_memo("go", token) for token in sorted(set(tokens))]
        assert harness.job(placed.job_id).state is State.READY
