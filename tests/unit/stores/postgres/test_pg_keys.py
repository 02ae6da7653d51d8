"""Keys while others act: of two with one key one is first; a holder that moves meanwhile is looked for again."""

from datetime import timedelta
from itertools import count

import psycopg
import pytest
from pg_underway import LONG

from standfast.errors import ConfigurationError, JobStateError, KeyTakenError
from standfast.model.job import Ending, OnConflict
from standfast.model.records import Change, Kind
from standfast.model.states import Move, Reason, State
from standfast.stores.postgres.rows import Marks
from standfast.stores.verb import Verb

HOUR = timedelta(hours=1)


def overtaken(crossing, verb, act, after="asked (task, key)"):
    """Run the verb, with something else happening after its look at who has the key, or after another statement."""

    def steps():
        todo, statement = [act], next(verb.steps)
        while True:
            answer = yield statement
            if todo and after in getattr(statement, "sql", "") and "JOIN" in statement.sql:
                todo.pop()()
            try:
                statement = verb.steps.send(answer)
            except StopIteration as stop:
                assert not todo
                return stop.value

    return crossing.run(Verb(verb.name, verb.access, steps(), verb.wakes, verb.tells))


def replacing(crossing, act, **fields):
    """Enqueue a job that replaces the one with its key, with something else happening meanwhile; return its id."""
    job = crossing.new_job(key="k", on_conflict=OnConflict.REPLACE, **fields)
    assert overtaken(crossing, crossing.verbs.enqueue([job]), act) == {}
    return job.id


class TestReplacing:
    def test_one_that_is_claimed_meanwhile(self, crossing):
        worker, holder = crossing.register(), crossing.enqueue(key="k")
        new = replacing(crossing, lambda: crossing.claim(worker))
        assert (crossing.job(new).reason, crossing.job(new).after) == (Reason.REPLACING, holder)
        assert crossing.job(holder).state is State.HELD

    def test_one_that_is_completed_meanwhile(self, crossing):
        placed = crossing.place(State.RUNNING, key="k")
        new = replacing(crossing, lambda: crossing.finish(placed.worker, placed.ref, Move.COMPLETE))
        assert crossing.job(new).state is State.READY
        assert crossing.job(placed.job_id).state is State.COMPLETED

    def test_one_that_is_given_back_meanwhile(self, crossing):
        placed = crossing.place(State.HELD, key="k")
        new = replacing(crossing, lambda: crossing.finish(placed.worker, placed.ref, Move.RELEASE))
        assert crossing.job(new).state is State.READY
        ended = crossing.job(placed.job_id)
        assert (ended.state, ended.reason) == (State.CANCELLED, Reason.REPLACED)

    def test_one_that_is_set_free_meanwhile(self, crossing):
        placed = crossing.place(State.RUNNING, key="k")
        follower = crossing.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        new = replacing(crossing, lambda: crossing.finish(placed.worker, placed.ref, Move.COMPLETE))
        assert crossing.job(new).state is State.READY
        assert crossing.job(follower).reason == Reason.REPLACED

    def test_one_whose_end_is_under_way(self, crossing):
        """The new job waits for nobody who has ended, however close the two are."""
        placed = crossing.place(State.RUNNING, key="k")
        crossing.enqueue(key="k", on_conflict=OnConflict.REPLACE)
        new = crossing.new_job(key="k", on_conflict=OnConflict.REPLACE)
        ending = crossing.verbs.finish(placed.worker, [Ending(placed.ref, Move.COMPLETE)])
        with crossing.underway(ending) as commit:
            answer = crossing.later(crossing.verbs.enqueue([new]))
            crossing.wait_until_it_waits()
            commit()
            assert answer.result(LONG) == {}
        assert crossing.job(new.id).state is State.READY
        assert crossing.claimed_ids(placed.worker) == [new.id]


class TestTwoAtOnce:
    @pytest.mark.parametrize("seen_before", [False, True], ids=["new key", "known key"])
    def test_the_second_meets_the_first(self, crossing, seen_before):
        if seen_before:
            crossing.place(State.COMPLETED, key="k")
        first, second = crossing.new_job(key="k"), crossing.new_job(key="k")
        with crossing.underway(crossing.verbs.enqueue([first])) as commit:
            answer = crossing.later(crossing.verbs.enqueue([second]))
            crossing.wait_until_it_waits()
            assert commit() == {}
            assert answer.result(LONG) == {second.id: first.id}

    def test_the_second_has_it_if_the_first_is_undone(self, crossing):
        first, second = crossing.new_job(key="k"), crossing.new_job(key="k")
        with crossing.user_connection() as user:
            crossing.backend.run_in(crossing.verbs.enqueue([first]), user)
            answer = crossing.later(crossing.verbs.enqueue([second]))
            crossing.wait_until_it_waits()
            user.rollback()
            assert answer.result(LONG) == {}
        assert crossing.job(second.id).state is State.READY

    def test_the_same_job_twice(self, crossing):
        job = crossing.new_job(key="k", on_conflict=OnConflict.RAISE)
        with crossing.underway(crossing.verbs.enqueue([job])) as commit:
            answer = crossing.later(crossing.verbs.enqueue([job]))
            crossing.wait_until_it_waits()
            commit()
            assert answer.result(LONG) == {job.id: job.id}

    def test_they_do_not_wait_for_each_other(self, crossing):
        """Keys are locked in one order, whatever the order of the jobs."""
        one, other = ([crossing.new_job(key=key) for key in keys] for keys in ("amz", "zma"))
        with crossing.underway(crossing.verbs.enqueue([crossing.new_job(key="m")])) as commit:
            answers = [crossing.later(crossing.verbs.enqueue(jobs)) for jobs in (one, other)]
            crossing.wait_until_it_waits(2)
            commit()
            taken = [answer.result(LONG) for answer in answers]
        assert sorted(map(len, taken)) == [1, 3]


class TestIsolation:
    @pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
    def test_a_key_needs_to_see_what_others_commit(self, crossing, level):
        with crossing.user_connection() as user:
            user.isolation_level = psycopg.IsolationLevel[level]
            with pytest.raises(ConfigurationError, match="READ COMMITTED"):
                crossing.backend.run_in(crossing.verbs.enqueue([crossing.new_job(key="k")]), user)

    @pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
    def test_a_job_without_a_key_does_not(self, crossing, level):
        job = crossing.new_job()
        with crossing.user_connection() as user:
            user.isolation_level = psycopg.IsolationLevel[level]
            crossing.backend.run_in(crossing.verbs.enqueue([job]), user)
            user.commit()
        assert crossing.job(job.id).state is State.READY

    def test_nothing_of_a_refused_call_is_stored(self, crossing):
        """Where a key is taken and the call says RAISE, the jobs before it are not stored either."""
        crossing.enqueue(key="k")
        before = crossing.snapshot()
        jobs = [crossing.new_job(), crossing.new_job(key="k", on_conflict=OnConflict.RAISE)]
        with pytest.raises(KeyTakenError):
            crossing.run(crossing.verbs.enqueue(jobs))
        assert crossing.snapshot() == before


class TestWhatIsLeft:
    """A replacement that comes to nothing leaves the job that has the key where every claim finds it at once."""

    @pytest.fixture
    def claims(self, crossing):
        """Give what claims all that is due, as a process does that is far from walking everything again."""
        crossing.backend.verbs._marks = Marks(float("inf"))
        worker, calls = crossing.register(), count(100)

        def claim():
            return set(crossing.claimed_ids(worker, call=next(calls)))

        crossing.enqueue()
        claim()
        return claim

    def test_where_another_key_of_the_call_is_taken(self, crossing, claims):
        holders = [crossing.enqueue(key=key) for key in "ab"]
        taken, other = crossing.enqueue(key="c", delay=HOUR), crossing.enqueue()
        jobs = [crossing.new_job(key=key, on_conflict=OnConflict.REPLACE) for key in "ab"]
        jobs.append(crossing.new_job(key="c", on_conflict=OnConflict.RAISE))
        found = []
        with pytest.raises(KeyTakenError):
            overtaken(crossing, crossing.verbs.enqueue(jobs), lambda: found.extend(claims()))
        assert found == [other]
        assert claims() == set(holders)
        assert crossing.job(taken).state is State.SCHEDULED

    def test_where_the_user_rolls_back(self, crossing, claims):
        holder, other = crossing.enqueue(key="k"), crossing.enqueue()
        with crossing.user_connection() as user:
            job = crossing.new_job(key="k", on_conflict=OnConflict.REPLACE)
            crossing.backend.run_in(crossing.verbs.enqueue([job]), user)
            assert claims() == {other}
            user.rollback()
        assert claims() == {holder}

    def test_where_the_replaced_job_is_of_the_same_transaction(self, crossing, claims):
        """Nobody else sees it yet, and nobody waits for anybody."""
        with crossing.user_connection() as user:
            jobs = [crossing.new_job(key="k", on_conflict=OnConflict.REPLACE) for _ in range(3)]
            for job in jobs:
                crossing.backend.run_in(crossing.verbs.enqueue([job]), user)
            user.commit()
        assert claims() == {jobs[-1].id}

    def test_where_a_change_of_records_is_refused(self, crossing, claims):
        """Of the runs that it withdraws one has started: the others are ready as before."""
        started = crossing.place(State.RUNNING)
        ready, other = crossing.enqueue(), crossing.enqueue()
        change = Change(Kind.SCHEDULE, "s", 0, "token", b"{}", withdraws=(ready, started.job_id))
        refused = crossing.verbs.change_records([change])
        found = []
        with pytest.raises(JobStateError, match="a worker has it"):
            overtaken(crossing, refused, lambda: found.extend(claims()), "place.state")
        assert found == [other]
        assert claims() == {ready}
