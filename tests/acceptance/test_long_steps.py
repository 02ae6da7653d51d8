"""An order of five steps whose processes are killed anywhere: every step takes effect exactly once.

200 kills at full size, `make prove NAME=long_steps`; short by default. Steps that call a service are told apart by
their idempotency keys; those that share the store's transaction need no such help.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing, suppress

import long_app
import pytest
from fleet import PATIENCE, sizes, wait_until
from long_app import SHARED, STEPS

from standfast.model.job import JobAction
from standfast.model.states import State
from standfast.stores.contract import change_job, count_states
from standfast.stores.values import JobFilter

pytestmark = pytest.mark.timeout(sizes(short=240, full=1_500))

KILLS = sizes(short=3, full=200)
TREE_EVERY = sizes(short=3, full=8)
"""One kill of so many is of a whole tree."""
BACKLOG = sizes(short=4, full=12)
"""So many orders are under way at each kill, so that it has something to hit."""
MOMENT = sizes(short=0.04, full=0.1)
"""Kills come up to so many seconds after a step: with few of them, soon enough to come inside one."""
LONG = sizes(short=120, full=900)


STORES = ["sqlite", "postgres", "redis"]


@pytest.fixture(params=STORES)
def fleet(request, fleet_on):
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    fleet = fleet_on(url, long_app)
    fleet.app.prepare()
    if request.param != "redis":
        long_app.create_tables(fleet.url)
    return fleet


def in_bank(fleet, table):
    """Return how often each step of each job is there."""
    with closing(long_app.bank(fleet.ledger.path)) as own:
        return Counter(own.execute(f"SELECT job, step FROM {table}").fetchall())


def bookings(fleet):
    """Return how often each step of each job is there in the store's own database."""
    with closing(long_app.connect(fleet.url)) as own:
        return Counter(tuple(row) for row in own.execute("SELECT job, step FROM booking").fetchall())


def requeue_dead(fleet):
    """Do as an operator does with those that were running when their process was killed for the third time."""
    for job in fleet.app.call(fleet.app.verbs.list_jobs(JobFilter(states=(State.DEAD,), limit=1_000))).jobs:
        assert job.crashes >= 3, job
        fleet.app.call(change_job(fleet.app.verbs, JobAction.RETRY, job.id))


def has_hit(fleet):
    """Tell whether a kill came inside a step, which then ran once more."""
    return max(in_bank(fleet, "call").values(), default=0) > 1


def check(fleet, jobs):
    """Each step of each job took effect once, wherever its effects are."""
    shared = () if fleet.url.startswith("redis") else SHARED
    outside = [step for step in STEPS if step not in shared]
    assert in_bank(fleet, "effect") == Counter({(job, step): 1 for job in jobs for step in outside})
    if shared:
        assert bookings(fleet) == Counter({(job, step): 1 for job in jobs for step in shared})
    for job in jobs:
        assert fleet.app.handle(job).result(timeout=1) == list(STEPS)


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=STORES), indirect=True)
def test_every_step_of_an_order_takes_effect_once_whatever_dies(fleet, measured):
    jobs = [fleet.enqueue("order") for _ in range(BACKLOG)]
    steady = fleet.start(concurrency=2)  # somebody has to live for a lease, to bury the others
    tree = fleet.start(concurrency=2)
    for each in (steady, tree):
        fleet.worker_of(each)
    kills = 0
    while kills < KILLS or not has_hit(fleet):
        called = in_bank(fleet, "call").total()
        while fleet.count(State.COMPLETED) > len(jobs) - BACKLOG:
            jobs.append(fleet.enqueue("order"))
        requeue_dead(fleet)
        wait_until(lambda called=called: in_bank(fleet, "call").total() > called, 3 * PATIENCE, "another step")
        time.sleep(random.uniform(0, MOMENT))  # somewhere in the steps that come now
        if kills % TREE_EVERY == TREE_EVERY - 1:
            tree.kill_tree()
            tree = fleet.start(concurrency=2)
        else:
            with suppress(ProcessLookupError, IndexError):
                pids = [worker.info.pid for worker in fleet.workers() if worker.is_live]
                os.kill(random.choice(pids), signal.SIGKILL)
        kills += 1

    def all_completed():
        requeue_dead(fleet)
        return fleet.count(State.COMPLETED) == len(jobs)

    wait_until(all_completed, LONG, f"the completion of all: {fleet.app.call(count_states(fleet.app.verbs))}")
    check(fleet, jobs)
    again = sum(in_bank(fleet, "call").values()) - sum(in_bank(fleet, "effect").values())
    measured(f"{kills} kills, {len(jobs)} orders, {again} calls of the bank came twice, no effect did")


@pytest.mark.parametrize("fleet", sizes(short=["redis"], full=STORES), indirect=True)
def test_steps_and_waits_in_a_process_of_their_own(fleet):
    """In a cell they do the same: it ends its run to wait, and its steps commit with its rows."""
    job = fleet.enqueue("order_in_a_cell")
    fleet.start(concurrency=2)
    wait_until(lambda: fleet.job(job).reason == "signal:go", what="the wait")
    assert fleet.job(job).run_at > fleet.job(job).created_at
    fleet.app.signal(job, "go")
    fleet.wait_for(job, State.COMPLETED)
    check(fleet, [job])
    assert [attempt.how for attempt in fleet.history(job)] == ["snooze", "complete"]
