"""The parts of isolation that need no process: declaring it, the frames on the line, control groups, sizes."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from standfast import ConfigurationError, Context, Standfast
from standfast.model.display import in_bytes
from standfast.model.job import Claim, ClaimRef, Ending, Progress
from standfast.model.policy import Isolation
from standfast.model.states import Move
from standfast.testing import StandfastKit
from standfast.worker.control import StopReason
from standfast.worker.isolation.memory import (
    CellGroup,
    descendants,
    find_home,
    out_of_memory,
    resident,
    status_of_self,
    taken_together,
)
from standfast.worker.isolation.messages import Concluded, Frames, Leave, Logged, Progressed, Run, Tell, framed

MEGABYTE = 10**6
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def app():
    with Standfast("memory://") as app:
        yield app


# -- declaring it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("512MB", 512 * MEGABYTE),
        ("1GiB", 2**30),
        ("1.5 gb", 1500 * MEGABYTE),
        ("64000K", 64 * MEGABYTE),
        (64 * MEGABYTE, 64 * MEGABYTE),
        (None, None),
    ],
)
def test_memory_is_kept_in_bytes(app, given, meant):
    policy = app.task(name="t", isolation="process", memory=given)(lambda: None).policy
    assert (policy.isolation, policy.memory) == (Isolation.PROCESS, meant)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"isolation": "thread"}, "isolation must be 'none' or 'process', not 'thread'"),
        ({"isolation": None}, "isolation must be 'none' or 'process', not None"),
        ({"memory": "512MB"}, "only in a process of its own; add isolation='process'"),
        ({"isolation": "process", "memory": 512}, "memory must be a size such as '512MB'.* not 512"),
        ({"isolation": "process", "memory": "512"}, "memory must be a size such as '512MB'.* not 512"),
        ({"isolation": "process", "memory": "a lot"}, "at least 32MB, not 'a lot'"),
        ({"isolation": "process", "memory": "16MB"}, "at least 32MB, not 16000000"),
        ({"isolation": "process", "memory": True}, "memory must be a size"),
    ],
)
def test_what_cannot_be_is_refused_at_the_declaration(app, declared, said):
    with pytest.raises(ConfigurationError, match=said):
        app.task(**declared)(lambda: None)
    assert app.tasks == {}


def test_a_kit_runs_isolated_tasks_in_the_process_of_the_test():
    """Tests are fast, and see what their handlers do."""
    app = Standfast("memory://")

    @app.task(isolation="process", memory="64MB")
    def where(ctx: Context) -> int:
        assert ctx.attempt == 1
        return os.getpid()

    with StandfastKit(app) as kit:
        where.enqueue()
        [run] = kit.drain()
    assert run.result == os.getpid()


def test_an_app_without_isolated_tasks_loads_nothing_for_them():
    """What is not used costs nothing: no module, and so no process."""
    code = (
        "import sys, standfast.hosts.child;"
        "print([name for name in sys.modules if name.startswith('standfast.worker.isolation')])"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


# -- the line -----------------------------------------------------------------------------------------------


def claim(payload=b"{}"):
    return Claim(ClaimRef("job", 3), "t", 1, payload, "q", 0, NOW, 1, 0, 5, metadata={"tenant": "acme"})


def test_messages_arrive_as_they_were_sent_in_whatever_pieces():
    """A frame may come a byte at a time, or many at once."""
    sent = [Run(claim(b"\x00\xff" * 500), NOW, 64 * MEGABYTE, True), Tell(StopReason.LOST, lost=True), Leave()]
    line = b"".join(map(framed, sent))
    frames = Frames()
    assert [each for byte in line for each in frames.to_cell(bytes([byte]))] == sent
    assert list(frames.to_cell(line)) == sent


def test_what_a_cell_says_arrives_as_it_was_sent():
    ending = Ending(ClaimRef("job", 3), Move.COMPLETE, NOW, result=b'{"total":3}')
    ref = ending.ref
    sent = [
        Progressed(ref, Progress(1.0, None)),
        Logged(ref, ["a line"]),
        Concluded(ref, ending, peak=5),
        Concluded(ref, None),
    ]
    frames = Frames()
    assert list(frames.from_cell(b"".join(map(framed, sent)))) == sent


# -- memory -------------------------------------------------------------------------------------------------


def test_memory_is_told_of_processes_and_all_that_they_have_started():
    ours = resident()
    assert ours > 5 * MEGABYTE
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        together, started = taken_together(os.getpid()), descendants(os.getpid())
        theirs = resident(other.pid)
        other.communicate(b"\n")
    assert together > ours / 2
    assert other.pid in started
    assert theirs > 0
    assert other.pid not in descendants(os.getpid())
    assert resident(other.pid) == 0, "it is gone"
    peak, nothing = status_of_self("VmHWM", "NoSuchThing")
    assert nothing == 0
    assert peak > ours - MEGABYTE, "the kernel notes the peak a few pages late"


def test_what_forks_share_counts_once_and_what_has_ended_not_at_all():
    """Three forks of a process with 100 MB take 100 MB together; one that is not yet reaped is no process."""
    code = (
        "import os, signal; held = bytearray(os.urandom(1)) * 100_000_000\n"
        "forks = [os.fork() for _ in range(3) if os.getpid() == PID] if (PID := os.getpid()) else []\n"
        "if 0 in forks: signal.pause()\n"
        "print(*forks, flush=True); input()\n"
        "os.kill(forks[0], 9); os.waitid(os.P_PID, forks[0], os.WEXITED | os.WNOWAIT)\n"
        "print(flush=True); input(); [os.kill(fork, 9) for fork in forks]"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        forks = [int(pid) for pid in other.stdout.readline().split()]
        together, started = taken_together(other.pid), descendants(other.pid)
        other.stdin.write(b"\n")
        other.stdin.flush()
        other.stdout.readline()
        left = descendants(other.pid)
        other.communicate(b"\n")
    assert sorted(started) == sorted(forks)
    assert 100 * MEGABYTE < together < 180 * MEGABYTE
    assert sorted(left) == sorted(forks[1:]), "the first has ended"


def test_sizes_in_bytes():
    assert in_bytes(256 * MEGABYTE) == "256 MB"
    assert out_of_memory(256 * MEGABYTE, 300 * MEGABYTE) == "out of memory (limit 256 MB, peak 300 MB)"


# -- control groups -----------------------------------------------------------------------------------------


@pytest.fixture
def mount(tmp_path):
    """Give a folder that stands for the file system of control groups: ours is `unit/worker`, delegated."""
    (tmp_path / "unit" / "worker").mkdir(parents=True)
    (tmp_path / "unit" / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "unit" / "cgroup.subtree_control").write_text("")
    (tmp_path / "own").write_text("4:memory:/elsewhere\n0::/unit/worker\n")
    return tmp_path


def test_cells_get_groups_beside_that_of_the_worker(mount):
    """The controller of memory is switched on for them."""
    assert find_home(mount, mount / "own") == mount / "unit"
    assert (mount / "unit" / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize("own", ["", "0::/\n", "4:memory:/unit/worker\n", "0::/gone/worker\n"])
def test_there_is_no_home_where_there_is_no_group_of_ours(mount, own):
    (mount / "own").write_text(own)
    assert find_home(mount, mount / "own") is None


def test_there_is_no_home_without_the_controller_of_memory(mount):
    (mount / "unit" / "cgroup.controllers").write_text("hugetlb")
    assert find_home(mount, mount / "own") is None


def test_a_group_without_a_limit_of_memory_is_not_kept(mount):
    assert CellGroup.make(mount / "unit", "cell") is None
    assert not (mount / "unit" / "cell").exists()
    assert CellGroup.make(mount / "nowhere", "cell") is None


def test_a_group_limits_admits_and_tells_who_was_killed(mount):
    folder = mount / "unit" / "cell"
    folder.mkdir()
    group = CellGroup(folder)
    (folder / "memory.events").write_text("oom 1\noom_kill 1\n")

    assert group.limit(64 * MEGABYTE)
    assert group.admit(42)

    assert (folder / "memory.max").read_text() == str(64 * MEGABYTE)
    assert (folder / "cgroup.procs").read_text() == "42"
    assert not group.exceeded, "that was before this limit"
    (folder / "memory.events").write_text("oom 2\noom_kill 2\n")
    assert group.exceeded
    assert group.limit(None)
    assert (folder / "memory.max").read_text() == "max"
