"""A supervisor that is killed leaves no process behind, whatever its children are doing."""

import os
import signal
import subprocess
import time

import pytest
from fleet import sizes, wait_until

from standfast.model.states import State
from standfast.supervisor.reaper_main import started_of

pytestmark = pytest.mark.timeout(180)

NO_ORPHAN_WITHIN = 10.0


STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
def fleet(request, fleet_on):
    return fleet_on(None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def offspring_of(pid):
    """Return what a process and its like have started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    parents = dict(map(int, line.split()) for line in listed.splitlines())
    found = [pid]
    for parent in found:
        found += [each for each, its in parents.items() if its == parent]
    return found[1:]


def alive(pids):
    return [pid for pid in pids if started_of(pid) is not None]


@pytest.mark.parametrize("fleet", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_kill_of_the_supervisor_leaves_no_orphan(fleet):
    """Ten seconds after kill -9 nothing is left: not the child whose handler holds the interpreter, nor what a
    handler has started in a session of its own, nor the one that is well, nor the guard."""
    tree = fleet.start(processes=3, concurrency=1, lease=60)
    wait_until(lambda: len(fleet.workers()) == 3)
    jobs = [fleet.enqueue("hold_interpreter", seconds=120), fleet.enqueue("leave_sleeper", seconds=120)]
    for job in jobs:
        fleet.wait_for_start(job)
    everybody = offspring_of(tree.process.pid)
    assert len(everybody) >= 5, "three children, the guard, and the one that a handler has started"
    assert len(alive(everybody)) == len(everybody)

    tree.process.kill()
    tree.process.wait()
    killed_at = time.monotonic()

    wait_until(lambda: not alive(everybody), within=60, what="the end of all processes")
    assert time.monotonic() - killed_at < sizes(short=30, full=NO_ORPHAN_WITHIN)


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=STORES), indirect=True)
def test_kill_of_the_whole_group_leaves_no_orphan(fleet):
    """What a handler has started in a session of its own is not in the group, and the guard knows of it."""
    tree = fleet.start(concurrency=1, lease=60)
    fleet.worker_of(tree)
    job = fleet.enqueue("leave_sleeper", seconds=120)
    fleet.wait_for_start(job)
    everybody = offspring_of(tree.process.pid)
    assert len(everybody) >= 3
    time.sleep(3)  # for the guard to look around, of which nothing tells

    tree.kill_tree()

    wait_until(lambda: not alive(everybody), within=60, what="the end of all processes")


@pytest.mark.parametrize("fleet", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_a_clean_stop_leaves_nobody_behind_and_hurts_nobody(fleet):
    """The guard ends with its supervisor, and what a handler left on purpose is not touched by it."""
    tree = fleet.start(concurrency=1, grace=1)
    fleet.worker_of(tree)
    fleet.wait_for_start(fleet.enqueue("leave_sleeper", seconds=20))
    children = offspring_of(tree.process.pid)
    guards = [pid for pid in children if "reaper_main.py" in command_of(pid)]
    sleepers = [pid for pid in children if command_of(pid).startswith("sleep ")]
    assert (len(guards), len(sleepers)) == (1, 1)

    tree.signal_supervisor(signal.SIGTERM)

    assert tree.exit_code() == 0
    assert alive(guards) == []
    assert alive(sleepers) == sleepers
    os.kill(sleepers[0], signal.SIGKILL)


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=STORES), indirect=True)
def test_work_goes_on_without_a_guard(fleet):
    """One that is killed is replaced, and the worker hardly notices."""
    tree = fleet.start(lease=2)
    fleet.worker_of(tree)

    def guards():
        return [pid for pid in offspring_of(tree.process.pid) if "reaper_main.py" in command_of(pid)]

    [guard] = wait_until(guards)
    os.kill(guard, signal.SIGKILL)
    assert fleet.wait_for(fleet.enqueue("nap", seconds=0), State.COMPLETED).attempt == 0
    wait_until(lambda: [pid for pid in guards() if pid != guard], what="another guard")
    assert "no guard ends the children should this process be killed" in tree.told


def command_of(pid):
    return subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout
