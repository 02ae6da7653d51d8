"""What a hard life does to a worker: locked files at the wrong moment, floods, and handlers that take liberties."""

import signal
from datetime import timedelta

import pytest
from fleet import now, wait_until

from standfast.model.ids import new_job_id
from standfast.model.job import Ending, NewJob
from standfast.model.states import Move, Reason, State
from standfast.stores.values import ClaimRequest, WorkerInfo

pytestmark = pytest.mark.timeout(120)


def test_finished_work_outlives_a_stop_while_the_file_is_locked(fleet):
    """Outcomes that cannot be stored at once are stored within the grace: nothing runs again, nothing is dead."""
    [tree] = fleet.start_workers(1, lease=6, grace=20, store_timeout=1)
    many = fleet.enqueue("nap", seconds=0.5)
    once = fleet.enqueue("nap", seconds=0.5, options={"max_attempts": 1})
    fleet.wait_for_start(many)
    fleet.wait_for_start(once)
    with fleet.user_transaction():
        wait_until(lambda: all(fleet.ledger.runs_of(job)[0].end for job in (many, once)), what="the end of both")
        tree.signal_supervisor(signal.SIGTERM)
        begun_at = now()
        wait_until(lambda: now() - begun_at >= timedelta(seconds=4))
    assert tree.exit_code() == 0
    for job in (many, once):
        assert fleet.job(job).state is State.COMPLETED
        assert len(fleet.ledger.runs_of(job)) == 1


def test_a_long_lock_is_no_hang(fleet):
    """A child that waits for the same lock as everybody is not taken for hung, however long that lasts."""
    [tree] = fleet.start_workers(1, lease=2, hang_limit=2, store_timeout=0.5)
    child = fleet.child_pid_of(tree)
    jobs = [fleet.enqueue("nap", seconds=1) for _ in range(2)]
    for job in jobs:
        fleet.wait_for_start(job)
    with fleet.user_transaction():
        begun_at = now()
        wait_until(lambda: now() - begun_at >= timedelta(seconds=6))
    for job in jobs:
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.fence, done.attempt, done.crashes) == (1, 0, 0)
    assert fleet.child_pid_of(tree) == child
    assert tree.told.count("does not answer") + tree.told.count("away") <= 4, tree.told


def test_a_handler_that_closes_its_app_harms_nobody(fleet):
    """The worker's way to the store is its own."""
    [tree] = fleet.start_workers(1, lease=2)
    child = fleet.child_pid_of(tree)
    closing = fleet.enqueue("close_the_app")
    fleet.wait_for(closing, State.COMPLETED)
    after = [fleet.enqueue("nap", seconds=0) for _ in range(20)]
    for job in after:
        fleet.wait_for(job, State.COMPLETED)
    assert fleet.child_pid_of(tree) == child


def test_a_drain_adopts_all_that_waited_for_it(fleet):
    """Whatever number of jobs an older release had put aside, a drain that knows them runs them all."""
    jobs = put_aside_by_an_older_release(fleet, count=150)
    assert fleet.start(lease=2, concurrency=5, drain=True).exit_code() == 0
    assert fleet.count(State.COMPLETED) == len(jobs)
    assert {fleet.job(job).attempt for job in jobs} == {0}


def put_aside_by_an_older_release(fleet, count):
    """Bring jobs into blocked(no_worker) as a worker does that does not know their task."""
    call, verbs = fleet.app.call, fleet.app.verbs
    call(verbs.register(WorkerInfo("older", "s", "host", 1, timedelta(seconds=60))))
    payload = b'{"v":1,"args":{"seconds":0.0}}'
    jobs = [NewJob(new_job_id(), "nap", payload) for _ in range(count)]
    call(verbs.enqueue(jobs))
    claims = call(verbs.claim(ClaimRequest("older", 1, count))).jobs
    call(verbs.finish("older", [Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER) for claim in claims]))
    assert fleet.count(State.BLOCKED) == count
    return [job.id for job in jobs]


def test_a_flood_of_progress_drowns_nobody(fleet):
    """A handler may say how far it is as often as it likes: it costs a few writes a second, and the lease stays."""
    [tree] = fleet.start_workers(1, lease=2)
    flood = fleet.enqueue("say_progress_often", times=200_000)
    neighbour = fleet.enqueue("nap", seconds=0.5)
    done = fleet.wait_for(flood, State.COMPLETED)
    fleet.wait_for(neighbour, State.COMPLETED)
    assert (done.fence, done.attempt) == (1, 0)
    assert len(tree.told.splitlines()) < 1_000


def test_an_orphan_is_gone_before_its_lease(fleet):
    """With its supervisor dead, a child whose handler cannot be stopped ends before others may start its jobs."""
    lease = 3
    [tree] = fleet.start_workers(1, lease=lease, grace=60)
    job = fleet.enqueue("nap_in_helper_thread", seconds=60)
    fleet.wait_for_start(job)
    tree.signal_supervisor(signal.SIGKILL)
    tree.process.wait()
    wait_until(lambda: not tree.members(), within=lease, what="the end of the orphan")
