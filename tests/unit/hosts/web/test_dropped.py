"""A child that cannot be killed is dropped: nobody beats for it, another takes its place, nothing is given back."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from stand_in import adopted_child

from standfast.hosts.beater import end_of, told_by
from standfast.model.crash import DeathKind
from standfast.supervisor.child import Exit, Phase

pytestmark = pytest.mark.virtual_time

GONE = Exit(255, foreign=True, unseen=True)


@pytest.mark.parametrize(
    ("written", "end"),
    [
        ("Fatal Python error: Segmentation fault\n\nThread 0x1:\n", Exit(-signal.SIGSEGV, foreign=True)),
        ("Fatal Python error: Aborted\n\nCurrent thread", Exit(-signal.SIGABRT, foreign=True)),
        ("Fatal Python error: something new\n", None),
        ("", None),
    ],
)
def test_where_the_kernel_does_not_tell_it_goes_by_what_python_wrote(written, end):
    assert told_by(written) == end


def test_the_kernel_tells_how_a_process_ended_that_is_no_child_of_ours():
    """Before its parent, here this process, has taken note of its end."""
    waits = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(7)"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE) as process:
        pidfd = os.pidfd_open(process.pid)
        assert end_of(process.pid, pidfd) is None
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert end_of(process.pid, pidfd) == Exit(7, foreign=True)
        process.wait()
    # Afterwards the kernel tells since Linux 6.15, and nothing is made up before.
    assert end_of(process.pid, pidfd) in {Exit(7, foreign=True), None}
    os.close(pidfd)


async def test_a_dropped_child_is_replaced_and_not_beaten_for():
    child = adopted_child(Phase.WORKING)
    assert child.beaten_for
    child.kill()
    assert not child.beaten_for
    assert child.replace.is_set()
    assert not child.gone.is_set()


async def test_one_that_never_began_stays_so():
    """It is not in the store, and is not to be buried there."""
    child = adopted_child(Phase.STARTING)
    child.kill()
    assert child.phase is Phase.STARTING


async def test_a_grace_that_is_over_drops_it():
    child = adopted_child(Phase.WORKING)
    child.ask_to_leave(grace=5.0)
    assert child.beaten_for, "it may still end in time"
    await asyncio.sleep(14.0)
    assert child.dropped
    assert child.death(GONE).kind is DeathKind.STOPPED


async def test_a_host_that_vanishes_after_it_was_asked_to_leave_has_left():
    """However it ended: it had to. Unasked, it is a crash, and so is one that hung."""
    asked, unasked, hung = (adopted_child(Phase.WORKING) for _ in range(3))
    asked.ask_to_leave(grace=5.0)
    hung.portrait = {}
    hung.kill()
    assert asked.death(GONE).kind is DeathKind.STOPPED
    assert asked.death(Exit(-signal.SIGKILL, foreign=True)).kind is DeathKind.STOPPED
    assert asked.death(Exit(1)).kind is DeathKind.CRASHED, "its process lives, and what it did there failed"
    assert unasked.death(GONE).kind is DeathKind.CRASHED
    assert hung.death(GONE).kind is DeathKind.CRASHED
