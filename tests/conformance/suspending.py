"""Jobs that give their slot back on purpose, until a time or a signal comes."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import Harness
from standfast.model.job import Cancellation, Ending, JobAction, OnConflict, Verdict
from standfast.model.memos import FOR_EVER, SLEEPING, signal_memo, signal_reason
from standfast.model.states import Move, Reason, State
from standfast.stores.contract import cancel_job, change_job

HOUR = timedelta(hours=1)

ALIKE = [("a", "ab"), ("ab", "a"), ("a", "A"), ("a_c", "abc"), ("%", "a"), ("a%", "ab"), ("*", "a"), ("a?c", "abc")]
ALIKE += [("[ab]", "a"), ("a\\_", "a_"), ("'", "''"), (" a", "a"), ("ä", "a\N{COMBINING DIAERESIS}")]
"""Pairs of names that are not the same, though they may look so to a pattern or to a collation."""


class Suspending:
    """A job that has given its slot back waits for its time, and says for what else."""

    @pytest.mark.parametrize("reason", [SLEEPING, signal_reason("go")])
    def test_the_reason_is_shown(self, harness: Harness, reason: str) -> None:
        """As long as the job is scheduled everyone sees why; the next claim forgets it. Nothing is charged."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=HOUR, reason=reason)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.run_at) == (State.SCHEDULED, reason, harness.clock.now() + HOUR)
        assert (job.attempt, job.worker) == (0, None)
        assert harness.claim(placed.worker) == ()
        harness.clock.advance(HOUR.total_seconds())
        harness.claim_one(placed.worker)
        assert harness.job(placed.job_id).reason is None

    @pytest.mark.parametrize("name", [None, "go"])
    def test_the_time_comes_by_itself(self, harness: Harness, name: str | None) -> None:
        """Without any signal it is due when its time is over, and what waits for it is told until when."""
        placed = harness.suspend(name, HOUR)
        assert harness.ask(placed.worker).next_due_at == harness.clock.now() + HOUR
        harness.clock.advance(HOUR.total_seconds() - 1)
        assert harness.job(placed.job_id).state is State.SCHEDULED
        harness.clock.advance(1)
        assert harness.job(placed.job_id).state is State.READY
        assert harness.claim_one(placed.worker).fence == placed.ref.fence + 1

    def test_a_wait_is_not_claimed_ahead(self, harness: Harness) -> None:
        """In a worker's hand it would not hear its signal; a sleep has nothing to hear, and starts on time."""
        waits, sleeps = harness.suspend("go", HOUR), harness.suspend(None, HOUR)
        harness.clock.advance(HOUR.total_seconds() - 5)
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 9}
        answer = harness.ask(waits.worker, **ahead)
        assert [job.job_id for job in answer.jobs] == [sleeps.job_id]
        assert answer.next_due_at == harness.clock.now() + timedelta(seconds=5)
        harness.signal(waits.job_id, "go")
        assert harness.claimed_ids(waits.worker, **ahead) == [waits.job_id]

    def test_a_wait_for_ever(self, harness: Harness) -> None:
        """A job may wait for a signal longer than anyone lives."""
        placed = harness.suspend("go", FOR_EVER)
        assert harness.job(placed.job_id).run_at == harness.clock.now() + FOR_EVER
        harness.signal(placed.job_id, "go")
        assert harness.claim_one(placed.worker).job_id == placed.job_id

    def test_a_signal_that_is_there_already(self, harness: Harness) -> None:
        """Who waits for a signal that has come does not wait: it is ready at once, and has no reason."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, "go")
        harness.clock.advance(5)
        harness.suspend("go", HOUR, placed)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.run_at) == (State.READY, None, harness.clock.now())
        assert harness.last_attempt(placed.job_id).how == Move.SNOOZE

    def test_a_sleep_is_not_ended_by_a_signal_that_is_there(self, harness: Harness) -> None:
        """Who waits for a time waits for that."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, "go")
        harness.suspend(None, HOUR, placed)
        assert (harness.job(placed.job_id).state, harness.job(placed.job_id).reason) == (State.SCHEDULED, SLEEPING)

    def test_a_signal_that_was_taken_counts_no_more(self, harness: Harness) -> None:
        """With its memo empty the job waits for the next one."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, "go")
        harness.save(placed.worker, placed.ref, 1, {signal_memo("go", "t1"): b""})
        harness.suspend("go", HOUR, placed)
        assert harness.job(placed.job_id).state is State.SCHEDULED
        harness.signal(placed.job_id, "go", "t2")
        assert harness.job(placed.job_id).state is State.READY

    def test_one_taken_and_one_to_come(self, harness: Harness) -> None:
        """Where of two signals one was taken, the other still ends the wait."""
        placed = harness.place(State.RUNNING)
        for token in ("t1", "t2"):
            harness.signal(placed.job_id, "go", token)
        harness.save(placed.worker, placed.ref, 1, {signal_memo("go", "t1"): b""})
        harness.suspend("go", HOUR, placed)
        assert harness.job(placed.job_id).state is State.READY

    @pytest.mark.parametrize(("wanted", "sent"), ALIKE)
    def test_a_signal_of_another_name_is_not_the_one(self, harness: Harness, wanted: str, sent: str) -> None:
        """Neither a name that begins alike nor one that a pattern would match ends the wait."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, sent)
        harness.suspend(wanted, HOUR, placed)
        assert (harness.job(placed.job_id).state, harness.job(placed.job_id).reason) == (
            State.SCHEDULED,
            signal_reason(wanted),
        )

    def test_memos_that_only_look_like_signals(self, harness: Harness) -> None:
        """A step or a wait of the same name is no signal."""
        placed = harness.place(State.RUNNING)
        harness.save(placed.worker, placed.ref, 1, {"step:go": b"1", "wait:go:1": b"1", "signal:go": b"1"})
        harness.suspend("go", HOUR, placed)
        assert harness.job(placed.job_id).state is State.SCHEDULED

    def test_a_signal_of_another_job_ends_no_wait(self, harness: Harness) -> None:
        """Each job has its own."""
        other = harness.place(State.RUNNING, queue="other")
        harness.signal(other.job_id, "go")
        placed = harness.suspend("go", HOUR)
        assert harness.job(placed.job_id).state is State.SCHEDULED

    def test_each_ending_of_a_batch_is_looked_at_alone(self, harness: Harness) -> None:
        """Of several that wait in one call, those go on whose signal is there; a completion is one all the same."""
        worker = harness.register()
        jobs = [harness.enqueue() for _ in range(4)]
        refs = [claim.ref for claim in harness.claim(worker)]
        harness.signal(jobs[1], "go")
        harness.signal(jobs[2], "stop")
        endings = [Ending(ref, Move.SNOOZE, delay=HOUR, reason=signal_reason("go")) for ref in refs[:3]]
        verdicts = harness.run(harness.verbs.finish(worker, [*endings, Ending(refs[3], Move.COMPLETE)]))
        assert verdicts == (Verdict.ACCEPTED,) * 4
        assert [harness.job(job_id).state for job_id in jobs] == [
            State.SCHEDULED,
            State.READY,
            State.SCHEDULED,
            State.COMPLETED,
        ]

    def test_a_repeated_finish_does_not_suspend_again(self, harness: Harness) -> None:
        """An ending that comes once more, after the signal that it waited for, leaves the job ready."""
        placed = harness.suspend("go", HOUR)
        harness.signal(placed.job_id, "go")
        before = harness.snapshot()
        harness.suspend("go", HOUR, placed)
        assert harness.snapshot() == before

    @pytest.mark.parametrize("name", [None, "go"])
    def test_a_suspended_job_is_cancelled_at_once(self, harness: Harness, name: str | None) -> None:
        """It waits as any other does, in nobody's hands."""
        placed = harness.suspend(name, FOR_EVER)
        assert harness.run(cancel_job(harness.verbs, placed.job_id)) is Cancellation.CANCELLED
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)

    def test_a_cancellation_comes_before_a_wait(self, harness: Harness) -> None:
        """A job that was asked to cancel is not suspended, whether or not its signal is there."""
        placed = harness.place(State.RUNNING)
        harness.signal(placed.job_id, "go")
        harness.run(cancel_job(harness.verbs, placed.job_id))
        harness.suspend("go", HOUR, placed)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)

    def test_a_replaced_job_is_not_suspended(self, harness: Harness) -> None:
        """A job whose place another takes is not suspended."""
        placed = harness.place(State.RUNNING, key="k")
        harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        harness.suspend("go", HOUR, placed)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.REPLACED)

    @pytest.mark.parametrize("name", [None, "go"])
    def test_a_suspended_job_is_requeued(self, harness: Harness, name: str | None) -> None:
        """A person may end the wait: it is due now, and has no reason any more."""
        placed = harness.suspend(name, FOR_EVER)
        harness.run(change_job(harness.verbs, JobAction.RETRY, placed.job_id))
        job = harness.job(placed.job_id)
        assert (job.state, job.reason, job.run_at) == (State.READY, None, harness.clock.now())
        assert harness.claim_one(placed.worker).job_id == placed.job_id

    def test_a_drain_does_not_wait_for_what_is_suspended(self, harness: Harness) -> None:
        """A sleep and a wait may last for ever; a snooze without a reason, a retry and what is due may not."""
        for name in (None, "go", "sleep"):
            harness.suspend(name, HOUR, queue=f"queue-{name}")
        assert harness.run(harness.verbs.unsettled(None)) == 0
        assert harness.run(harness.verbs.unsettled(("queue-go",))) == 0
        for move in (Move.SNOOZE, Move.RETRY):
            placed = harness.place(State.RUNNING, queue=move)
            harness.finish(placed.worker, placed.ref, move, delay=HOUR)
        assert harness.run(harness.verbs.unsettled(None)) == 2
        harness.clock.advance(HOUR.total_seconds())
        assert harness.run(harness.verbs.unsettled(None)) == 5

    def test_any_other_reason_does_not_hide_a_job_from_a_drain(self, harness: Harness) -> None:
        """Only what says that it sleeps or waits for a signal is suspended."""
        for number, reason in enumerate(("sleepy", "signals", "Signal:go", "so")):
            placed = harness.place(State.RUNNING, queue=str(number))
            harness.finish(placed.worker, placed.ref, Move.SNOOZE, delay=HOUR, reason=reason)
            assert harness.job(placed.job_id).reason == reason
        assert harness.run(harness.verbs.unsettled(None)) == 4
