"""Clients act upon jobs that move meanwhile: each act finds the job where it is, or says that it came too late."""

import threading
import time
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from standfast.errors import JobStateError, KeyTakenError, StoreUnavailableError
from standfast.model.job import Cancellation, ClaimRef, Ending, JobAction, OnConflict
from standfast.model.states import Move, Reason, State
from standfast.stores.contract import cancel_job, change_job, count_states
from standfast.stores.verb import Verb


def overtaken(verb, *acts):
    """Return the verb, with something else happening after each of its first looks at the job."""

    def steps():
        waiting, statement = list(acts), next(verb.steps)
        while True:
            answer = yield statement
            if waiting and _is_a_look(statement):
                waiting.pop(0)()
            try:
                statement = verb.steps.send(answer)
            except StopIteration as stop:
                return stop.value

    return Verb(verb.name, verb.access, steps(), verb.wakes, verb.tells)


def _is_a_look(statement):
    return statement.sql.startswith("WITH moment") and "FROM moment CROSS JOIN" in statement.sql


class TestCancel:
    def test_claimed_meanwhile(self, harness):
        worker, job_id = harness.register(), harness.enqueue()
        cancel = overtaken(cancel_job(harness.verbs, job_id), lambda: harness.claim(worker))
        assert harness.run(cancel) is Cancellation.REQUESTED
        assert harness.job(job_id).cancel_requested

    def test_given_back_meanwhile(self, harness):
        placed = harness.place(State.RUNNING)
        back = overtaken(
            cancel_job(harness.verbs, placed.job_id), lambda: harness.finish(placed.worker, placed.ref, Move.RETRY)
        )
        assert harness.run(back) is Cancellation.CANCELLED
        assert harness.job(placed.job_id).state is State.CANCELLED

    def test_ended_meanwhile(self, harness):
        placed = harness.place(State.RUNNING)
        late = overtaken(
            cancel_job(harness.verbs, placed.job_id),
            lambda: harness.finish(placed.worker, placed.ref, Move.COMPLETE),
        )
        assert harness.run(late) is Cancellation.TOO_LATE
        assert harness.job(placed.job_id).state is State.COMPLETED

    def test_a_job_that_never_rests(self, harness):
        """Who is overtaken again and again is told so, and has changed nothing."""
        worker, job_id = harness.register(), harness.enqueue()

        def claim():
            harness.claim(worker)

        def give_back():
            harness.finish(worker, ClaimRef(job_id, harness.job(job_id).fence), Move.RELEASE)

        with pytest.raises(StoreUnavailableError, match=f"{job_id} moved.*try again"):
            harness.run(overtaken(cancel_job(harness.verbs, job_id), *[claim, give_back] * 5))
        assert harness.job(job_id).state is State.READY

    def test_a_replacement_whose_turn_came_meanwhile(self, harness):
        """The one it waited for has ended: it is cancelled as any other, and that one's key is not given back."""
        first = harness.place(State.RUNNING, key="k")
        second = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        cancel = overtaken(
            cancel_job(harness.verbs, second), lambda: harness.finish(first.worker, first.ref, Move.COMPLETE)
        )
        assert harness.run(cancel) is Cancellation.CANCELLED
        assert harness.job(first.job_id).state is State.COMPLETED
        assert harness.taken_by(key="k") is None

    def test_a_replacement_replaced_meanwhile(self, harness):
        """Another took its place: it has ended, and the claimed job stays replaced by that other."""
        first = harness.place(State.RUNNING, key="k")
        second = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        third = harness.new_job(key="k", on_conflict=OnConflict.REPLACE)
        cancel = overtaken(cancel_job(harness.verbs, second), lambda: harness.run(harness.verbs.enqueue([third])))
        assert harness.run(cancel) is Cancellation.TOO_LATE
        assert harness.job(second).reason == Reason.REPLACED
        harness.finish(first.worker, first.ref, Move.RETRY)
        assert harness.job(first.job_id).reason == Reason.REPLACED
        assert harness.job(third.id).state is State.READY


class TestRequeue:
    def test_discarded_meanwhile(self, harness):
        dead = harness.place(State.DEAD)
        requeue = overtaken(
            change_job(harness.verbs, JobAction.RETRY, dead.job_id),
            lambda: harness.run(change_job(harness.verbs, JobAction.DISCARD, dead.job_id)),
        )
        with pytest.raises(JobStateError, match="cancelled"):
            harness.run(requeue)
        assert harness.run(count_states(harness.verbs))[State.DEAD] == 0

    def test_requeued_meanwhile(self, harness):
        dead = harness.place(State.DEAD, key="k")
        requeue = overtaken(
            change_job(harness.verbs, JobAction.RETRY, dead.job_id),
            lambda: harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id)),
        )
        with pytest.raises(JobStateError, match="ready"):
            harness.run(requeue)
        assert harness.run(count_states(harness.verbs))[State.READY] == 1
        assert harness.taken_by(key="k") == dead.job_id

    def test_a_scheduled_job_claimed_meanwhile(self, harness):
        worker, job_id = harness.register(), harness.enqueue(delay=timedelta(seconds=5))
        ahead = {"look_ahead": timedelta(minutes=1), "ahead_limit": 1}
        requeue = overtaken(
            change_job(harness.verbs, JobAction.RETRY, job_id), lambda: harness.claim(worker, **ahead)
        )
        with pytest.raises(JobStateError, match="held"):
            harness.run(requeue)

    def test_a_key_taken_meanwhile(self, harness):
        dead = harness.place(State.DEAD, key="k")
        requeue = overtaken(
            change_job(harness.verbs, JobAction.RETRY, dead.job_id), lambda: harness.enqueue(key="k")
        )
        with pytest.raises(KeyTakenError):
            harness.run(requeue)
        assert harness.job(dead.job_id).state is State.DEAD


class TestDiscard:
    def test_requeued_meanwhile(self, harness):
        dead = harness.place(State.DEAD)
        discard = overtaken(
            change_job(harness.verbs, JobAction.DISCARD, dead.job_id),
            lambda: harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id)),
        )
        with pytest.raises(JobStateError, match="ready"):
            harness.run(discard)


class TestCounts:
    def test_counts_follow_the_dead(self, harness):
        """A job that is requeued or discarded is counted where it is then, and nowhere else."""
        ids = [harness.place(State.DEAD, queue="q").job_id for _ in range(3)]
        harness.run(change_job(harness.verbs, JobAction.RETRY, ids[0]))
        harness.run(change_job(harness.verbs, JobAction.DISCARD, ids[1]))
        expected = {State.READY: 1, State.CANCELLED: 1, State.DEAD: 1}
        (queue,) = harness.run(harness.verbs.queues())
        assert queue.states == expected
        assert harness.run(count_states(harness.verbs)) == dict.fromkeys(State, 0) | expected


ROUNDS = 25
PATIENCE = 20


def wait_until_somebody_waits_for(connection, url):
    """Return once another transaction waits for a lock of this connection."""
    pid, until = connection.info.backend_pid, time.monotonic() + PATIENCE
    with psycopg.connect(url, autocommit=True) as own:
        blocked = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        while not own.execute(blocked, (pid,)).fetchall():
            assert time.monotonic() < until, "nobody came to wait"


class TestAtOnce:
    def test_of_many_who_decide_one_does(self, harness):
        """Of requeues and discards of one dead job at the same moment exactly one is made, and counted once."""
        for _ in range(ROUNDS):
            job_id = harness.place(State.DEAD, queue="d").job_id
            acts = [JobAction.RETRY, JobAction.DISCARD] * 2
            made = self._at_once(harness, [change_job(harness.verbs, action, job_id) for action in acts])
            assert len(made) == 1
            harness.run(cancel_job(harness.verbs, job_id))
        assert harness.run(count_states(harness.verbs))[State.DEAD] == 0
        assert harness.run(count_states(harness.verbs))[State.CANCELLED] == ROUNDS

    def test_a_replacement_and_the_end_of_the_replaced(self, harness):
        """However a cancellation and the end of the claimed job fall together, nobody waits for ever."""
        for _ in range(ROUNDS):
            first = harness.place(State.RUNNING, key="k")
            second = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
            verbs = [
                cancel_job(harness.verbs, second),
                harness.verbs.finish(first.worker, [Ending(first.ref, Move.RETRY)]),
            ]
            assert len(self._at_once(harness, verbs)) == 2
            states = {harness.job(job_id).state for job_id in (first.job_id, second)}
            assert states in ({State.CANCELLED}, {State.CANCELLED, State.READY})
            harness.run(cancel_job(harness.verbs, first.job_id))
            assert harness.job(second).state is State.CANCELLED

    def test_locks_are_taken_in_the_order_of_those_who_end_claims(self, harness, shared_postgres, emptied_schema):
        """While another ends the claimed job, a cancellation waits for it, and keeps nothing that the end needs."""
        first = harness.place(State.RUNNING, key="k")
        second = harness.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        lock = sql.SQL("SELECT FROM {} WHERE id = {} FOR UPDATE NOWAIT")
        claim, waiting = (sql.Identifier(emptied_schema.name, table) for table in ("claim", "waiting"))
        with psycopg.connect(shared_postgres) as other:
            other.execute(lock.format(claim, sql.Literal(first.job_id)))
            cancel = threading.Thread(target=harness.run, args=(cancel_job(harness.verbs, second),))
            cancel.start()
            wait_until_somebody_waits_for(other, shared_postgres)
            other.execute(lock.format(waiting, sql.Literal(second)))
        cancel.join()
        assert harness.job(second).state is State.CANCELLED

    def _at_once(self, harness, verbs):
        start, made = threading.Barrier(len(verbs)), []

        def run(verb):
            start.wait()
            with suppress(JobStateError):
                made.append(harness.run(verb))

        threads = [threading.Thread(target=run, args=(verb,)) for verb in verbs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return made


def test_a_clock_that_was_set_back_leaves_fresh_jobs_ready(harness):
    """A job that was due on arrival is ready, whatever the time is now: all say so, and none tries in vain."""
    job_id = harness.enqueue(key="one")
    harness.clock.step_wall(-3600)
    assert harness.job(job_id).state is State.READY
    with pytest.raises(JobStateError, match="is ready"):
        harness.run(change_job(harness.verbs, JobAction.RETRY, job_id))
    with pytest.raises(KeyTakenError, match="is ready"):
        harness.enqueue(key="one", on_conflict=OnConflict.RAISE)
