"""Claims of two at once, jobs of two kinds in one order, and levels that come into being."""

import time
from contextlib import closing
from datetime import timedelta

import pytest
from pg_underway import LONG, Crossing

from conformance.harness import TASK
from standfast.model.job import KnownTask
from standfast.model.states import Move, State
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest

MAX_WAIT = timedelta(seconds=60)
SECOND = timedelta(seconds=1)


@pytest.fixture
def crossing(postgres_url):
    with closing(Crossing(postgres_url)) as crossing:
        yield crossing


def ids(answer):
    return [job.job_id for job in answer.jobs]


HOW = {
    "fresh": {},
    "with shares": {"queues": ("default", "none"), "shares": (1, 1)},
    "adopting": {"adopt": (KnownTask(TASK, 1),)},
}


class TestTwoAtOnce:
    @pytest.mark.parametrize("how", HOW)
    def test_both_get_work(self, crossing, how):
        """What one is about to take, the other passes over."""
        jobs = [crossing.enqueue() for _ in range(4)]
        first, second = crossing.register(), crossing.register()
        with crossing.underway(crossing.verbs.claim(ClaimRequest(first, 1, 2, **HOW[how]))) as commit:
            assert crossing.claimed_ids(second, 2, **HOW[how]) == jobs[2:]
            assert ids(commit()) == jobs[:2]

    @pytest.mark.parametrize("how", HOW)
    def test_both_get_work_of_either_kind(self, crossing, how):
        """Nothing is locked that is not taken, where fresh jobs and others are due together."""
        delayed = [crossing.enqueue(delay=SECOND) for _ in range(2)]
        fresh = [crossing.enqueue() for _ in range(2)]
        crossing.clock.advance(1)
        first, second = crossing.register(), crossing.register()
        with crossing.underway(crossing.verbs.claim(ClaimRequest(first, 1, 1, **HOW[how]))) as commit:
            assert crossing.claimed_ids(second, 9, **HOW[how]) == [fresh[1], *delayed]
            assert ids(commit()) == fresh[:1]

    def test_both_look_ahead(self, crossing):
        jobs = [crossing.enqueue(delay=SECOND) for _ in range(2)]
        first, second = crossing.register(), crossing.register()
        ahead = {"look_ahead": 2 * SECOND, "ahead_limit": 1}
        with crossing.underway(crossing.verbs.claim(ClaimRequest(first, 1, 1, **ahead))) as commit:
            assert crossing.claimed_ids(second, **ahead) == jobs[1:]
            assert ids(commit()) == jobs[:1]


class TestOrder:
    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
    @pytest.mark.parametrize("how", HOW)
    def test_fresh_jobs_and_others_are_one_line(self, crossing, limit, how):
        """By the time, whether they were due on arrival or came to be; in the last place too."""
        line = []
        for _ in range(3):
            line += [crossing.enqueue(), crossing.enqueue(delay=SECOND)]
            crossing.clock.advance(2)
        assert crossing.claimed_ids(crossing.register(), limit, **HOW[how]) == line[:limit]

    def test_across_levels(self, crossing):
        """A limit that ends within a level takes what comes first there."""
        low = [crossing.enqueue(delay=SECOND), crossing.enqueue(delay=3 * SECOND)]
        crossing.clock.advance(2)
        low.insert(1, crossing.enqueue())
        crossing.clock.advance(2)
        high = [crossing.enqueue(priority=1), crossing.enqueue(priority=1, delay=SECOND)]
        crossing.clock.advance(1)
        worker = crossing.register()
        assert crossing.claimed_ids(worker, 4) == [*high, *low[:2]]
        assert crossing.claimed_ids(worker, 4) == low[2:]

    def test_a_job_keeps_its_place_in_the_order(self, crossing):
        """Given back, requeued or not: who arrived first goes first among those of one time."""
        now = crossing.clock.now()
        first, second = (crossing.enqueue(run_at=now) for _ in range(2))
        worker = crossing.register()
        claims = crossing.claim(worker)
        for claim in reversed(claims):
            crossing.finish(worker, claim.ref, Move.RELEASE)
        assert crossing.claimed_ids(worker) == [first, second]


class TestLevels:
    def test_priorities_that_meet_later_take_turns(self, crossing):
        """A queue that had one priority when it was claimed from last has two now."""
        worker, old = crossing.register(), crossing.enqueue()
        assert crossing.claimed_ids(worker, max_wait=MAX_WAIT) == [old]
        old = crossing.enqueue()
        crossing.clock.advance(MAX_WAIT.total_seconds() / 2)
        crossing.enqueue(priority=9)
        assert crossing.claimed_ids(worker, 1, call=3, max_wait=MAX_WAIT) == [old]

    @pytest.mark.parametrize("call", [2, 3])
    def test_a_priority_that_another_process_brought(self, crossing, postgres_url, call):
        """Nobody told this process of it: they take turns all the same, at once."""
        worker, old = crossing.register(), crossing.enqueue()
        assert crossing.claimed_ids(worker, max_wait=MAX_WAIT) == [old]
        old, urgent = crossing.enqueue(), crossing.new_job(priority=9)
        crossing.clock.advance(MAX_WAIT.total_seconds() / 2)
        with closing(PostgresBackend(postgres_url, clock=crossing.clock)) as other:
            other.run(other.verbs.enqueue([urgent]))
        first = old if call % 2 else urgent.id
        assert crossing.claimed_ids(worker, 1, call=call, max_wait=MAX_WAIT) == [first]

    def test_an_enqueue_that_was_undone_teaches_nothing(self, crossing):
        """A level that came and went with a transaction is made again by the next who needs it."""
        with crossing.user_connection() as user:
            for _ in range(2):
                crossing.backend.run_in(crossing.verbs.enqueue([crossing.new_job(queue="new")]), user)
            user.rollback()
        job_id = crossing.enqueue(queue="new")
        assert crossing.claimed_ids(crossing.register()) == [job_id]

    def test_nobody_waits_for_a_level_of_another(self, crossing):
        """The first job of a queue, in a transaction that stays open, does not hold up the second."""
        undecided = crossing.new_job(queue="new")
        with crossing.user_connection() as user:
            crossing.backend.run_in(crossing.verbs.enqueue([undecided]), user)
            job_id = crossing.enqueue(queue="new")
            worker = crossing.register()
            assert crossing.claimed_ids(worker) == [job_id]
            user.commit()
        assert crossing.claimed_ids(worker) == [undecided.id]

    def test_a_level_that_is_gone_comes_back(self, crossing):
        """After a failover that lost it, a new connection makes the process look again."""
        crossing.enqueue()
        crossing.enqueue()
        crossing.own.execute(crossing.named("DELETE FROM {}.level"))
        crossing.verbs.forget_server()
        crossing.enqueue()
        assert len(crossing.claim(crossing.register())) == 3

    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("delay", [timedelta(), SECOND])
    def test_a_level_that_an_enqueuer_only_remembers_comes_back(self, crossing, how, delay):
        """Somebody emptied the table by hand: a claim that walks everything finds what is in no level."""
        for _ in range(3):
            crossing.enqueue()
        worker = crossing.register()
        assert len(crossing.claim(worker)) == 3
        crossing.own.execute(crossing.named("DELETE FROM {}.level"))
        jobs = [crossing.enqueue(delay=delay) for _ in range(2)]
        crossing.clock.advance(1)
        crossing.verbs._marks.forget()
        assert crossing.claimed_ids(worker, **HOW[how]) == jobs

    def test_many_levels_are_compared_with_no_other(self, crossing):
        """A claim of every queue takes a time that grows with their number, and not with its square."""
        worker = crossing.register()
        crossing.claim(worker, max_wait=MAX_WAIT)  # a plan is made while there are few
        jobs = [crossing.new_job(queue=f"queue{number:05}") for number in range(15_000)]
        crossing.run(crossing.verbs.enqueue(jobs))
        began = time.monotonic()
        assert crossing.claimed_ids(worker, 1, call=1, max_wait=MAX_WAIT) == [jobs[0].id]
        assert time.monotonic() - began < LONG / 3


def test_a_job_in_hand_is_nowhere_else(crossing):
    """A claim leaves no row behind in the table that the job came from."""
    crossing.enqueue()
    crossing.enqueue(delay=SECOND)
    crossing.clock.advance(1)
    claims = crossing.claim(crossing.register())
    assert [crossing.job(claim.job_id).state for claim in claims] == [State.HELD, State.HELD]
    for table in ("fresh", "waiting"):
        assert crossing.own.execute(crossing.named(f"SELECT FROM {{}}.{table}")).rowcount == 0
