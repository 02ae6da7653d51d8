"""Many jobs that run in one process, or on one machine, run again at once when it dies; and a culprit is found."""

import os
import signal
from collections import Counter
from itertools import chain

import pytest
from fleet import sizes, wait_until

from standfast.model.crash import CRASHES_ALONE_LIMIT
from standfast.model.states import State

RUNNING = sizes(short=16, full=256)
LASTS = sizes(short=1.0, full=10.0)
LEASE = sizes(short=2, full=5)
AGAIN_WITHIN = 5.0
"""Seconds from the first death by the store's times, at full size."""

LONG = 60 + 20 * LASTS

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))

STORES = ["sqlite", "postgres", "redis"]


def on(store):
    """Run on this store, and on each at full size."""
    return pytest.mark.parametrize("fleet_on_each_store", sizes(short=[store], full=STORES), indirect=True)


@on("sqlite")
def test_child_killed(fleet_on_each_store, measured):
    """By `kill -9`: all run again in two groups, nobody is charged, and all complete."""
    fleet = fleet_on_each_store
    naps = enqueue_naps(fleet, RUNNING)
    [tree] = fleet.start_workers(1, concurrency=RUNNING, lease=LEASE)
    wait_until_all_run(fleet)

    os.kill(fleet.child_pid_of(tree), signal.SIGKILL)

    fleet.wait_for_completed(RUNNING, LONG)
    judge_innocents(fleet, naps, measured)
    assert deaths_of(fleet) == [RUNNING]
    groups = Counter(fleet.history(job)[-1].worker for job in naps)
    assert sorted(groups.values()) == [RUNNING // 2, RUNNING // 2]
    assert {fleet.job(job).group for job in naps} == {RUNNING // 2}


@on("postgres")
def test_tree_killed(fleet_on_each_store, measured):
    """The loss of a host is no suspicion: after the lease all run again at once at others, as any other job."""
    fleet = fleet_on_each_store
    naps = enqueue_naps(fleet, RUNNING)
    [lost] = fleet.start_workers(1, concurrency=RUNNING, lease=LEASE)
    wait_until_all_run(fleet)
    wait_until(lambda: fleet.count(State.RUNNING) == RUNNING, what="word of all starts")
    others = fleet.start_workers(2, concurrency=RUNNING, lease=LEASE)

    lost.kill_tree()

    for other in others:
        fleet.wait_until_it_may_bury(other)
    fleet.wait_for_completed(RUNNING, LONG)
    judge_innocents(fleet, naps, measured, how="vanished")
    assert {(job.crashes, job.group) for job in map(fleet.job, naps)} == {(1, 0)}


@on("redis")
def test_poison_among_many(fleet_on_each_store, measured):
    """One job that takes its process down is found by halving, and it alone is charged."""
    judge_poisons(fleet_on_each_store, 1, measured)


@on("sqlite")
def test_two_poisons_among_many(fleet_on_each_store, measured):
    """Two are found as well."""
    judge_poisons(fleet_on_each_store, 2, measured)


def judge_poisons(fleet, many, measured):
    """Hold the story of so many that take their processes down, among others, against the promises."""
    innocents = RUNNING - many
    naps = enqueue_naps(fleet, innocents // 2)
    poisons = [fleet.enqueue("exit_among", others=RUNNING) for _ in range(many)]
    naps += enqueue_naps(fleet, innocents - len(naps))
    fleet.start_workers(1, concurrency=RUNNING, lease=LEASE)

    for poison in poisons:
        dead = fleet.wait_for(poison, State.DEAD, within=LONG)
        assert dead.attempt == CRASHES_ALONE_LIMIT
        assert "its process exited with status 9" in dead.error
        hows = [attempt.how for attempt in fleet.history(poison)]
        assert hows.count("suspected") + 1 <= RUNNING.bit_length(), "nine deaths among 256 until it is found alone"
        assert hows[-CRASHES_ALONE_LIMIT:] == ["crashed"] * CRASHES_ALONE_LIMIT
    fleet.wait_for_completed(innocents, LONG)
    judge_innocents(fleet, naps, measured)
    sizes_of_groups = deaths_of(fleet)
    assert sizes_of_groups[0] == RUNNING
    assert max(sizes_of_groups[1:]) <= RUNNING // 2
    if many == 1:
        assert sizes_of_groups == [RUNNING >> halved for halved in range(RUNNING.bit_length())] + [1, 1]


def enqueue_naps(fleet, many):
    return [handle.id for handle in fleet.app.tasks["nap_after_a_death"].enqueue_many([{"seconds": LASTS}] * many)]


def wait_until_all_run(fleet):
    wait_until(lambda: len(fleet.ledger.entries()) >= RUNNING, what="all starts")


def deaths_of(fleet):
    """Return how many ran in each process that died, the first one first."""
    attempts = [
        each for job in fleet.jobs() for each in fleet.history(job.id) if each.how in {"suspected", "crashed"}
    ]
    died_at = {each.worker: each.ended_at for each in attempts}
    many = Counter(each.worker for each in attempts)
    return [many[worker] for worker in sorted(many, key=died_at.__getitem__)]


def judge_innocents(fleet, naps, measured, how="suspected"):
    """None of them is charged, each completes, and has started again in time."""
    stories = {job: [each for each in fleet.history(job) if each.how != "release"] for job in naps}
    assert {fleet.job(job).attempt for job in naps} == {0}
    assert {each.how for each in chain(*stories.values())} == {how, "complete"}
    assert {story[-1].how for story in stories.values()} == {"complete"}
    assert {story[0].how for story in stories.values()} == {how}, "all ran when the first one died"
    first_death = min(story[0].ended_at for story in stories.values())
    runs = fleet.ledger.runs()
    again = max((runs[job][1].start.at - first_death).total_seconds() for job in naps)
    for_good = max((story[-1].started_at - first_death).total_seconds() for story in stories.values())
    measured(f"all {len(naps)} run again within {again:.2f} s, and to their ends within {for_good:.2f} s")
    if sizes(short=None, full=256) == RUNNING:
        assert again <= AGAIN_WITHIN
