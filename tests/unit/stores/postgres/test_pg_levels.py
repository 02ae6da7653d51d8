"""Levels that no job needs any more are forgotten, and no job is overlooked by that, whoever enqueues meanwhile."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from itertools import count

import psycopg
import pytest
from pg_underway import LONG

from standfast.model.job import Ending, JobAction
from standfast.model.states import Move
from standfast.stores.contract import change_job
from standfast.stores.postgres import rows as levels
from standfast.stores.postgres.rows import MARKED_FOR, MOST_LEVELS, Levels, Marks
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest
from standfast.stores.verb import Access, Command, Last, Verb

HOUR = timedelta(hours=1)
QUEUES = [f"queue{number}" for number in range(MOST_LEVELS + 1)]


def bring(crossing, queues, **fields):
    """Enqueue a job into each of these queues, by a process that remembers no level; return their ids."""
    jobs = [crossing.new_job(queue=queue, **fields) for queue in queues]
    crossing.verbs._levels.forget()
    crossing.run(crossing.verbs.enqueue(jobs))
    return [job.id for job in jobs]


def come_and_go(crossing, queues=QUEUES):
    """Bring a job into each of these queues, and complete it."""
    bring(crossing, queues)
    worker = crossing.register()
    claims = crossing.claim(worker, len(queues))
    crossing.run(crossing.verbs.finish(worker, [Ending(claim.ref, Move.COMPLETE) for claim in claims]))


def known(crossing):
    """Return how many rows each queue has among the levels."""
    rows = crossing.own.execute(crossing.named("SELECT queue, count(*) FROM {}.level GROUP BY queue")).fetchall()
    return dict(rows)


def sweep(crossing, times=3):
    """Let a supervisor tidy up, each time after so long that it may go on where it was."""
    for _ in range(times):
        crossing.run(crossing.verbs.forget_results(10))
        crossing.clock.advance(MARKED_FOR)


@pytest.fixture
def claims(crossing):
    """Give what claims and completes all that is due, as a process does that never walks everything."""
    crossing.backend.verbs._marks = Marks(float("inf"))
    worker, calls = crossing.register(), count(100)
    crossing.enqueue(queue="always", delay=HOUR * 1000)

    def claim():
        found = crossing.claim(worker, 200, call=next(calls))
        crossing.run(crossing.verbs.finish(worker, [Ending(claim.ref, Move.COMPLETE) for claim in found]))
        return {claim.job_id for claim in found}

    claim()
    return claim


class TestForgetting:
    def test_levels_that_no_job_needs_are_forgotten(self, crossing):
        """Where many queues came and went, an idle claim does not look at any of them."""
        come_and_go(crossing)
        assert len(known(crossing)) == len(QUEUES)
        sweep(crossing)
        assert known(crossing) == {}

    def test_few_levels_stay(self, crossing):
        """Claims are quick, and they may be needed again."""
        come_and_go(crossing, QUEUES[:MOST_LEVELS])
        sweep(crossing)
        assert len(known(crossing)) == MOST_LEVELS

    def test_a_level_waits_before_it_goes(self, crossing):
        """Not before every process has looked for it again; however often somebody tidies up."""
        come_and_go(crossing)
        for _ in range(5):
            crossing.run(crossing.verbs.forget_results(10))
            crossing.clock.advance((MARKED_FOR - 1) / 5)
        assert len(known(crossing)) == len(QUEUES)

    def test_a_level_with_jobs_stays(self, crossing):
        """Whether they are due, wait, are blocked or are in a worker's hand."""
        come_and_go(crossing)
        worker = crossing.register()
        bring(crossing, ["held", "blocked"])
        held, blocked = sorted(crossing.claim(worker, 2), key=lambda claim: claim.queue, reverse=True)
        crossing.run(crossing.verbs.finish(worker, [Ending(blocked.ref, Move.BLOCK)]))
        bring(crossing, ["fresh"])
        bring(crossing, ["waiting"], delay=HOUR * 1000)
        sweep(crossing)
        assert known(crossing).keys() == {"held", "blocked", "fresh", "waiting"}
        crossing.run(crossing.verbs.finish(worker, [Ending(held.ref, Move.COMPLETE)]))
        come_and_go(crossing)
        sweep(crossing)
        assert "held" not in known(crossing)

    def test_a_level_that_is_there_twice_is_there_once(self, crossing):
        """Two who were the first with it do not wait for each other; one of their rows goes."""
        come_and_go(crossing)
        job = crossing.new_job(queue="both")
        with crossing.underway(crossing.verbs.enqueue([crossing.new_job(queue="both")])):
            crossing.later(crossing.verbs.enqueue([job])).result(LONG)
        assert known(crossing)["both"] == 2
        sweep(crossing)
        assert known(crossing) == {"both": 1}


class TestComingBack:
    def test_a_marked_level_is_noted_again(self, crossing, claims):
        """By who has to look for it; the claims of others see its job."""
        come_and_go(crossing)
        sweep(crossing, 1)
        jobs = bring(crossing, QUEUES[:2])
        assert claims() == set(jobs)
        sweep(crossing)
        jobs = bring(crossing, QUEUES[:2])
        assert claims() == set(jobs)

    @pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
    def test_a_dead_job_is_requeued_into_a_level_that_was_forgotten(self, crossing, claims, many):
        """Whoever revives a job sees to its level."""
        come_and_go(crossing)
        worker = crossing.register()
        [job_id] = bring(crossing, ["dead"])
        [claim] = crossing.claim(worker, 1)
        crossing.run(crossing.verbs.finish(worker, [Ending(claim.ref, Move.DIE)]))
        sweep(crossing)
        assert "dead" not in known(crossing)
        verbs = crossing.verbs
        crossing.run(
            verbs.change_jobs(JobAction.RETRY, [job_id]) if many else change_job(verbs, JobAction.RETRY, job_id)
        )
        assert claims() == {job_id}

    def test_a_transaction_that_relied_on_the_level_is_waited_for(self, crossing, claims):
        """It enqueued while its process still remembered the level, and commits when that is long forgotten."""
        come_and_go(crossing)
        job = crossing.new_job(queue=QUEUES[0])
        with crossing.user_connection() as user:
            crossing.run(crossing.verbs.enqueue([crossing.new_job(queue=QUEUES[0])]))
            claims()
            crossing.backend.run_in(crossing.verbs.enqueue([job]), user)
            sweep(crossing, 6)
            user.commit()
        assert claims() == {job.id}

    @pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
    def test_an_old_snapshot_is_not_relied_on(self, crossing, claims, level):
        """A transaction sees the level of long ago, which is gone: it brings its own."""
        come_and_go(crossing)
        job = crossing.new_job(queue=QUEUES[0])
        with crossing.user_connection() as user:
            user.isolation_level = psycopg.IsolationLevel[level]
            user.execute(crossing.named("SELECT FROM {}.level"))
            sweep(crossing)
            crossing.verbs._levels.forget()
            crossing.backend.run_in(crossing.verbs.enqueue([job]), user)
            user.commit()
        assert claims() == {job.id}


class Storm:
    """Processes that enqueue into queues which come and go, and claim, while levels are forgotten all the time.

    The clock moves while no enqueue is on its way and some have come since it moved last: so nothing depends on
    the pace of the machine. Transactions of users stay open while it moves.
    """

    def __init__(self, crossing, url, seed):
        self.crossing, self.url, self.seed = crossing, url, seed
        self.now, self.enqueues, self.came, self.moving = 0.0, 0, 0, threading.Condition()
        self.is_over, self.is_all = threading.Event(), threading.Event()
        self.accepted, self.claimed = [], []
        self.gone = Counter()

    @contextmanager
    def process(self):
        """Give a process of its own, whose memory of levels goes by the clock of the storm."""
        with closing(PostgresBackend(self.url, clock=self.crossing.clock)) as backend:
            backend.verbs._levels = Levels(lambda: self.now)
            backend.verbs._marks = Marks(float("inf"))
            yield backend

    def move_clock(self):
        with self.moving:
            assert self.moving.wait_for(lambda: not self.enqueues and self.came > 1, LONG), "nobody enqueues"
            self.came = 0
            self.now += levels.REMEMBERED_FOR / 2
            self.crossing.clock.advance(levels.REMEMBERED_FOR / 2)

    @contextmanager
    def at_one_time(self):
        with self.moving:
            self.enqueues += 1
        try:
            yield
        finally:
            with self.moving:
                self.enqueues -= 1
                self.came += 1
                self.moving.notify()

    def enqueue(self, number):
        dice = random.Random(f"{self.seed} {number}")
        with self.process() as backend, ExitStack() as users:
            open_ones = []
            while not self.is_over.is_set():
                job = self.crossing.new_job(queue=f"queue{dice.randrange(40)}", priority=dice.randrange(2))
                if dice.random() < 0.2:
                    user = users.enter_context(closing(self.crossing.connect()))
                    user.autocommit = False
                    with self.at_one_time():
                        backend.run_in(backend.verbs.enqueue([job]), user)
                    open_ones.append((user, job.id))
                else:
                    with self.at_one_time():
                        backend.run(backend.verbs.enqueue([job]))
                    self.accepted.append(job.id)
                if len(open_ones) > 3:
                    self._commit(*open_ones.pop(dice.randrange(4)))
            for each in open_ones:
                self._commit(*each)

    def _commit(self, user, job_id):
        user.commit()
        user.close()
        self.accepted.append(job_id)

    def claim(self, number):
        dice = random.Random(f"{self.seed} claims {number}")
        worker, calls = self.crossing.register(), count(1)
        with self.process() as backend:
            while True:
                is_all = self.is_all.is_set()
                request = ClaimRequest(worker, next(calls), 5, max_wait=HOUR * 10**6)
                claims = backend.run(backend.verbs.claim(request)).jobs
                done = [claim for claim in claims if is_all or dice.random() < 0.8]
                moves = [Ending(claim.ref, Move.COMPLETE if claim in done else Move.RELEASE) for claim in claims]
                if moves:
                    backend.run(backend.verbs.finish(worker, moves))
                self.claimed += [claim.job_id for claim in done]
                if is_all and not claims:
                    return

    def forget(self, rounds):
        sql, micros = self.crossing.verbs._sql["forget_levels"], MARKED_FOR * 1_000_000

        def steps():
            return (yield Last(Command(sql, (self.crossing.verbs._given_now(), 0, micros))))

        with self.process() as backend:
            for _ in range(rounds):
                self.gone["levels"] += backend.run(Verb("forget_levels", Access.WRITE, steps()))
                self.move_clock()


def test_no_job_is_overlooked_in_a_storm(crossing, emptied_url):
    """Queues come and go, enqueuers remember them, users commit late, claims give jobs back: all are claimed."""
    crossing.enqueue(queue="always", delay=HOUR * 10**5)  # a claim that finds no level at all mends the table
    storm = Storm(crossing, emptied_url, seed=random.randrange(10**6))
    with ThreadPoolExecutor(6) as threads:
        enqueuers = [threads.submit(storm.enqueue, number) for number in range(2)]
        forgetter = threads.submit(storm.forget, 150)
        claimers = [threads.submit(storm.claim, number) for number in range(2)]
        try:
            forgetter.result(LONG)
            storm.is_over.set()
            for each in enqueuers:
                each.result(LONG)
        finally:
            storm.is_over.set()
            storm.is_all.set()
        for each in claimers:
            each.result(LONG)
    assert storm.gone["levels"] > 20, storm.seed
    assert Counter(storm.claimed) == Counter(storm.accepted), storm.seed
