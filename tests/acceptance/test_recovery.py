"""How soon jobs come back after `kill -9`, by the store's own timestamps, and that no process stays behind."""

import os
import signal
from datetime import timedelta

import pytest
from fleet import now, sizes, wait_until

from standfast.model.states import State

LEASE = sizes(short=2, full=15)
SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))


@pytest.mark.parametrize(
    "task", sizes(short=["nap", "fork_and_nap"], full=["nap", "nap_in_thread", "fork_and_nap"])
)
def test_recovery_after_kill_of_a_child(fleet, task):
    """What a killed child had is ready again within a second, because its supervisor saw the death: also where the
    handler has left a process behind."""
    [tree] = fleet.start_workers(1)
    job = fleet.enqueue(task, seconds=60)
    fleet.wait_for_start(job)

    killed_at = now()
    os.kill(fleet.child_pid_of(tree), signal.SIGKILL)

    fleet.wait_for(job, State.READY, State.HELD, State.RUNNING)
    wait_until(lambda: fleet.history(job)[0].ended_at, what="the end of the first claim")
    first = fleet.history(job)[0]
    assert first.how == "crashed"
    assert first.ended_at - killed_at <= SECOND
    fleet.wait_for_start(job, runs=2)
    assert tree.process.poll() is None


@pytest.mark.parametrize("task", sizes(short=["nap_in_thread"], full=["nap", "nap_in_thread"]))
def test_recovery_after_kill_of_a_tree(fleet, task):
    """What a killed tree had is ready again within its lease and a second, because another worker lives."""
    [tree] = fleet.start_workers(1, lease=LEASE)
    job = fleet.enqueue(task, seconds=60)
    fleet.wait_for(job, State.RUNNING)
    [other] = fleet.start_workers(1, lease=LEASE)
    fleet.wait_until_it_may_bury(other)

    killed_at = tree.kill_tree()

    wait_until(lambda: fleet.history(job)[0].ended_at, LEASE + 30, "the end of the first claim")
    first = fleet.history(job)[0]
    assert first.how == "vanished"
    assert first.ended_at - killed_at <= timedelta(seconds=LEASE) + SECOND
    fleet.wait_for_start(job, runs=2)
    assert fleet.job(job).worker == fleet.worker_of(other).info.id


@pytest.mark.parametrize("task", ["nap", "nap_in_thread"])
def test_parent_death(fleet, task):
    """A child whose supervisor dies ends within its lease: others do what it had, and no process stays behind."""
    lease = sizes(short=4, full=15)
    [tree] = fleet.start_workers(1, lease=lease, grace=60)
    child = fleet.child_pid_of(tree)
    job = fleet.enqueue(task, seconds=60)
    fleet.wait_for(job, State.RUNNING)
    [other] = fleet.start_workers(1, lease=lease)

    killed_at = now()
    tree.signal_supervisor(signal.SIGKILL)
    tree.process.wait()
    wait_until(lambda: child not in tree.members(), lease + 30, "the end of the orphan")

    assert now() - killed_at <= timedelta(seconds=lease)
    assert tree.members() == []
    fleet.wait_for_start(job, runs=2)
    first, second = fleet.ledger.runs_of(job)
    assert (first.start.pid, first.end) == (child, None)
    assert second.start.pid == fleet.child_pid_of(other)
    assert fleet.job(job).attempt <= 1
