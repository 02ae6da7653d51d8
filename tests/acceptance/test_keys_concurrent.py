"""Fifty threads in five processes enqueue with one key at once, also while workers run what is replaced.

Short by default; `make prove NAME=keys_concurrent` runs them at full size.
"""

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from itertools import pairwise

import pytest
from crowd import Order, enqueue_together
from fleet import PATIENCE, PROVE, sizes, wait_until

from standfast.model.states import FINAL, State

PROCESSES = 5
THREADS = 10
CROWD = PROCESSES * THREADS
KEYS = [f"order-{number}" for number in range(sizes(short=3, full=40))]
BUSY_KEYS = ["a", "b", "c"]
TURNS = sizes(short=4, full=40)
LONGEST_NAP = 0.05
LONG = 600 if PROVE else PATIENCE

pytestmark = pytest.mark.timeout(900 if PROVE else 120)


def test_of_a_crowd_one_is_stored_and_all_are_told_of_it(fleet):
    """on_conflict="return": exactly one job exists for a key, and all fifty handles have its id."""
    met = by_key(enqueue_together(Order(fleet.url, THREADS, KEYS, "return"), PROCESSES))
    jobs = jobs_by_key(fleet)
    for key in KEYS:
        (job,) = jobs[key]
        assert Counter(one.job for one in met[key]) == {job.id: CROWD}
        assert sum(one.created for one in met[key]) == 1


def test_of_a_crowd_one_wins_and_the_others_get_an_error(fleet):
    """on_conflict="raise": one job is stored, and forty-nine callers hear that its key is taken."""
    met = by_key(enqueue_together(Order(fleet.url, THREADS, KEYS, "raise"), PROCESSES))
    jobs = jobs_by_key(fleet)
    for key in KEYS:
        (job,) = jobs[key]
        assert Counter(one.job for one in met[key]) == {job.id: 1, None: CROWD - 1}


def test_of_a_crowd_the_last_one_is_left(fleet):
    """on_conflict="replace": all are accepted, each ends the one before it, and exactly one is left unfinished."""
    met = by_key(enqueue_together(Order(fleet.url, THREADS, KEYS, "replace"), PROCESSES))
    jobs = jobs_by_key(fleet)
    for key in KEYS:
        assert {one.job for one in met[key] if one.created} == {job.id for job in jobs[key]}
        assert len(jobs[key]) == CROWD
        *earlier, last = jobs[key]
        assert {(job.state, job.reason) for job in earlier} == {(State.CANCELLED, "replaced")}
        assert last.state is State.READY


def test_runs_of_one_key_never_overlap(fleet):
    """While workers run the jobs of a few keys, a crowd replaces them: no two jobs of a key ever run at once."""
    fleet.start_workers(2, concurrency=4)
    order = Order(fleet.url, THREADS, BUSY_KEYS * TURNS, "replace", LONGEST_NAP)
    met = enqueue_together(order, PROCESSES)
    assert len({one.job for one in met if one.created}) == CROWD * len(order.keys)
    wait_until(lambda: all(job.state in FINAL for job in fleet.jobs()), LONG, "the end of all jobs")

    ran = 0
    runs = fleet.ledger.runs()
    for jobs in jobs_by_key(fleet).values():
        *_, last = jobs
        assert last.state is State.COMPLETED, "the last one accepted was not run"
        assert {job.reason for job in jobs if job.state is not State.COMPLETED} <= {"replaced"}
        of_key = sorted((run for job in jobs for run in runs[job.id]), key=lambda run: run.start.boot)
        for earlier, later in pairwise(of_key):
            assert earlier.end is not None
            assert earlier.end.boot <= later.start.boot, f"two at once: {earlier} {later}"
        ran += len(of_key)
    assert ran > len(BUSY_KEYS), "nothing ran while it was replaced"


def by_key(met):
    found = defaultdict(list)
    for one in met:
        found[one.key].append(one)
    return found


def jobs_by_key(fleet):
    """Return the jobs of each key in the order in which they were accepted."""
    with closing(sqlite3.connect(fleet.path)) as connection:
        order = dict(connection.execute("SELECT id, seq FROM standfast_job"))
    found = defaultdict(list)
    for job in sorted(fleet.jobs(), key=lambda job: order[job.id]):
        found[job.key].append(job)
    return found
