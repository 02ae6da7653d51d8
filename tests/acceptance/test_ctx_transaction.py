"""Handlers that write rows of their own and complete their job in one transaction: each effect exactly once.

200 kills at full size, `make prove NAME=ctx_transaction`; short by default.

Two kinds of kills, for they have different consequences. A tree that dies whole vanishes, and its jobs are charged
an attempt at most: they have a thousand. A child that dies under its supervisor crashes, and a job that crashed
alone three times is dead, whatever attempts it has left: an operator requeues it, and so does this test.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from itertools import count, takewhile

import pytest
from shopfloor import PATIENCE, PROVE, eventually

from standfast.model.job import JobAction
from standfast.model.states import State
from standfast.stores.contract import change_job
from standfast.stores.values import JobFilter

KILLS = 200 if PROVE else 4
BACKLOG = 20
"""So many jobs wait at each kill at least, so that it has something to hit."""
TREES = 2
LONG = 900 if PROVE else PATIENCE

pytestmark = pytest.mark.timeout(1_200 if PROVE else 300)


def bookings(orders):
    return Counter(job for (job,) in orders.sql("SELECT job FROM booking"))


def requeue_dead(orders):
    for job in orders.app.call(orders.app.verbs.list_jobs(JobFilter(states=(State.DEAD,), limit=1_000))).jobs:
        assert job.crashes >= 3, job
        orders.app.call(change_job(orders.app.verbs, JobAction.RETRY, job.id))


def kill_some_child(worker):
    with suppress(ProcessLookupError, IndexError, FileNotFoundError):
        os.kill(random.choice(worker.children), signal.SIGKILL)


def has_hit(orders):
    """Tell whether a kill hit a handler, which then ran once more: on a busy machine that may take more of them."""
    starts = Counter(line["job"] for line in orders.ledger(what="start"))
    return max(starts.values(), default=0) > 1


def test_the_effect_happens_exactly_once_whatever_dies(orders):
    handles = [*enqueue(orders, "book"), *enqueue(orders, "book_async")]
    steady = orders.worker("--concurrency", "2")  # somebody has to live for a lease, to bury the others
    trees = [orders.worker("--concurrency", "2") for _ in range(TREES)]
    for kill in takewhile(lambda kill: kill < KILLS or not has_hit(orders), count()):
        victim = random.randrange(TREES)
        killed = trees[victim] if kill % 3 else random.choice([steady, *trees])
        killed.ready()  # a slow machine would else see workers killed while they start, and no handler at all
        time.sleep(random.uniform(0, 0.5))
        while len(handles) - len(bookings(orders)) < BACKLOG:
            handles += enqueue(orders, random.choice(("book", "book_async")))
        if kill % 3:
            killed.kill()
            trees[victim] = orders.start("--concurrency", "2")
        else:
            kill_some_child(killed)

    def all_completed():
        requeue_dead(orders)
        return orders.counts() == {State.COMPLETED: len(handles)}

    eventually(all_completed, f"all completed: {orders.counts()}", LONG)
    assert bookings(orders) == Counter(handle.id for handle in handles)
    fences = dict(orders.sql("SELECT job, fence FROM booking"))
    for handle in handles:
        assert handle.result() == fences[handle.id]  # the claim that booked is the one that completed
        assert orders.history(handle)[-1].fence == fences[handle.id]


def enqueue(orders, task):
    return getattr(orders.tasks, task).enqueue_many([{}] * BACKLOG)


@pytest.mark.parametrize(("where", "runs"), [("inside", 2), ("after", 1)])
def test_a_process_that_dies_beside_the_commit(orders, where, runs):
    """Before it nothing has happened, and the job runs again; after it all has, and the job never does."""
    handle = orders.tasks.die_once.enqueue(where)
    orders.drain()
    assert orders.become(handle, "completed").result == str(runs).encode()
    assert bookings(orders) == {handle.id: 1}
    assert len(orders.ledger(handle, "start")) == runs
    assert handle.job().attempt == runs - 1


def test_an_exception_inside_is_retried(orders):
    handle = orders.tasks.raise_once_inside.enqueue()
    orders.drain()
    assert orders.become(handle, "completed").attempt == 1
    assert bookings(orders) == {handle.id: 1}


@pytest.mark.parametrize(
    ("task", "ignored"),
    [("raise_after", "too late to fail"), ("return_another", "another result"), ("time_out_after", "TimeoutError")],
)
def test_what_comes_after_the_commit_changes_nothing(orders, task, ignored):
    handle = getattr(orders.tasks, task).enqueue()
    worker = orders.worker()
    eventually(lambda: f"{task} {handle.id[-8:]} completed" in worker.words, "the event")
    assert handle.result(timeout=PATIENCE) == "stays"
    assert (handle.job().attempt, bookings(orders)) == (0, {handle.id: 1})
    assert worker.stop() == 0
    assert "completed by its transaction" in worker.words
    assert ignored in worker.words


@pytest.mark.parametrize("task", ["linger_after", "linger_in_thread"])
def test_a_worker_that_stops_after_the_commit(orders, task):
    """Also past the time at which a long job is marked as running, which the store then refuses."""
    handle = getattr(orders.tasks, task).enqueue()
    worker = orders.worker("--grace", "1")
    eventually(lambda: orders.ledger(handle, "committed"), "the commit")
    time.sleep(1)  # the marking of long jobs, and progress, come and are refused meanwhile
    assert orders.ledger(handle, "ended") == [], "the handler was told that its job is lost"
    assert worker.stop() == 0, worker.words
    assert handle.result(timeout=PATIENCE) == "stays"
    assert bookings(orders) == {handle.id: 1}
    assert "lost" not in worker.words
    assert f"{task} {handle.id[-8:]} completed" in worker.words
    assert "completed by its transaction" not in worker.words


def test_a_cancellation_after_the_commit_comes_too_late(orders):
    handle = orders.tasks.linger_after.enqueue()
    worker = orders.worker("--grace", "1")
    eventually(lambda: orders.ledger(handle, "committed"), "the commit")
    assert handle.cancel() == "too_late"
    assert worker.stop() == 0
    assert handle.status() == "completed"
