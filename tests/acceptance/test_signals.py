"""A worker is stopped or told to go: what it had is never lost, and never done under a claim that is over."""

import signal
from datetime import timedelta

import pytest
from fleet import now, sizes, wait_until

from standfast.model.states import State

LEASE = sizes(short=2, full=15)
NAP = sizes(short=4, full=9)
"""Long enough to stop a worker meanwhile, and within the ten seconds that a worker claims ahead."""
GRACE = 2
SOON = 20
"""Seconds in which what happens at once has happened, on a slow machine too, and what waits for a job has not."""


@pytest.fixture
def fleet(fleet_on_each_store):
    return fleet_on_each_store


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["sqlite"], full=["sqlite", "postgres", "redis"]), indirect=True
)
@pytest.mark.timeout(sizes(short=120, full=600))
def test_sigstop_past_lease(fleet):
    """A worker stopped past its lease starts nothing stale when it goes on: its work was done elsewhere, its late
    finish is refused, and a new incarnation takes its place."""
    [stopped] = fleet.start_workers(1, lease=LEASE, concurrency=2)
    old = fleet.worker_of(stopped)
    running = fleet.enqueue("nap_in_thread", seconds=NAP)
    ahead = [fleet.enqueue("nap", seconds=0, options={"delay": NAP}) for _ in range(2)]
    fleet.wait_for(running, State.RUNNING)
    for job in ahead:
        fleet.wait_for(job, State.HELD)
    stopped_at = now()
    fleet.stop_at_rest(*stopped.members())
    jobs = [running, *ahead]
    assert [fleet.job(job).state for job in jobs] == [State.RUNNING, State.HELD, State.HELD]
    other = fleet.start(lease=LEASE)

    for job in jobs:
        fleet.wait_for(job, State.COMPLETED, within=30 * LEASE)
    done = {job: fleet.job(job) for job in jobs}
    stopped.signal_tree(signal.SIGCONT)
    new = fleet.worker_of(stopped, other_than=[old.info.id])
    wait_until(lambda: old.info.pid not in stopped.members(), what="the end of the old incarnation")

    runs = fleet.ledger.runs()
    fences = [done[job].fence for job in jobs]
    assert [[run.fence for run in runs[job]] for job in jobs] == [[1, fences[0]], [fences[1]], [fences[2]]]
    by_old = [run for job in jobs for run in runs[job] if run.start.pid == old.info.pid]
    assert by_old == [runs[running][0]]
    assert by_old[0].start.at < stopped_at
    late = by_old[0].end
    assert late is not None, "the handler of the stopped worker went on to its end"
    assert late.at > done[running].finished_at
    assert late.lost, "the handler was told"
    assert {job: fleet.job(job) for job in jobs} == done, "the late finish has changed something"
    assert f"nap_in_thread {running[-8:]} lost: the job belongs to another worker now" in stopped.told
    assert "was declared dead by others" in stopped.told
    listed = {each["id"]: each for each in fleet.standfast_json("workers")}
    assert old.info.id not in listed
    assert listed[new.info.id]["supervisor"] == old.info.supervisor
    other.signal_supervisor(signal.SIGTERM)
    assert other.exit_code() == 0
    assert fleet.wait_for(fleet.enqueue("nap", seconds=0), State.COMPLETED).worker == new.info.id


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["postgres"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_sigstop_past_lease_of_the_supervisor_alone(fleet):
    """A child that nobody beats for starts nothing, though it could; once beats go on, so does it, uncharged."""
    [tree] = fleet.start_workers(1, lease=2)
    worker = fleet.worker_of(tree)
    ahead = [fleet.enqueue("nap", seconds=0, options={"delay": 4}) for _ in range(2)]
    for job in ahead:
        fleet.wait_for(job, State.HELD)

    tree.signal_supervisor(signal.SIGSTOP)
    overdue_at = fleet.job(ahead[-1]).run_at + timedelta(seconds=0.5)
    wait_until(lambda: now() >= overdue_at)
    started = fleet.ledger.entries()
    tree.signal_supervisor(signal.SIGCONT)

    assert started == []
    for job in ahead:
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.worker, done.fence, done.attempt, done.crashes) == (worker.info.id, 1, 0, 0)


MORE_GRACE = [("sqlite", "nap"), ("redis", "nap_in_thread")]


@pytest.mark.parametrize(
    ("fleet_on_each_store", "task"),
    [("sqlite", "nap_in_thread"), ("postgres", "nap"), *sizes(short=[], full=MORE_GRACE)],
    indirect=["fleet_on_each_store"],
)
def test_sigterm_grace(fleet, task):
    """SIGTERM in the middle of a job longer than the grace: nothing more is claimed, the job is ready at once after
    the grace, uncharged, and exit is 0."""
    tree = fleet.start(grace=GRACE)
    job = fleet.enqueue(task, seconds=60)
    fleet.wait_for(job, State.RUNNING)

    told_at = now()
    tree.signal_supervisor(signal.SIGTERM)
    wait_until(lambda: "stopping" in tree.told, what="the signal's effect")
    later = [fleet.enqueue("nap", seconds=0) for _ in range(3)]

    assert tree.exit_code() == 0
    assert [fleet.job(each).fence for each in later] == [0, 0, 0]
    left = fleet.job(job)
    assert (left.state, left.attempt, left.crashes, left.group, left.error) == (State.READY, 0, 0, 0, None)
    [attempt] = fleet.history(job)
    assert attempt.how == "release"
    assert GRACE <= (attempt.ended_at - told_at).total_seconds() <= GRACE + SOON
    [run] = fleet.ledger.runs_of(job)
    assert run.end is None
    assert tree.members() == []
    assert fleet.workers() == ()
    fleet.start()
    fleet.wait_for_start(job, runs=2)
    assert fleet.job(job).attempt == 0


@pytest.mark.parametrize(
    ("fleet_on_each_store", "task", "second"),
    [
        ("sqlite", "nap", signal.SIGTERM),
        ("postgres", "nap_in_thread", signal.SIGINT),
        ("redis", "nap", signal.SIGINT),
    ],
    indirect=["fleet_on_each_store"],
)
def test_sigterm_grace_ends_with_a_second_signal(fleet, task, second):
    """A second signal does not wait for the grace: the job is ready at once, uncharged, and exit is 0."""
    tree = fleet.start(grace=60)
    job = fleet.enqueue(task, seconds=60)
    fleet.wait_for(job, State.RUNNING)
    tree.signal_supervisor(signal.SIGTERM)
    wait_until(lambda: "stopping" in tree.told, what="the first signal's effect")

    told_at = now()
    tree.signal_supervisor(second)

    assert tree.exit_code() == 0
    left = fleet.job(job)
    assert (left.state, left.attempt, left.crashes, left.group) == (State.READY, 0, 0, 0)
    [attempt] = fleet.history(job)
    assert attempt.how == "release"
    assert (attempt.ended_at - told_at).total_seconds() <= SOON
    assert tree.members() == []
