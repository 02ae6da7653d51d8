"""A child process: how it ended and what it used is known exactly, and no signal ever meets another process."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standfast.supervisor import process
from standfast.supervisor.process import LOST_STATUS, WaitedProcess

SLEEP = "import time; time.sleep(600)"
HOG = "hoard = bytearray(150 << 20); hoard[::4096] = b'x' * len(range(0, 150 << 20, 4096))"
SPIN = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.fixture(params=["as here", "without waitid", "without pidfd", "with neither"])
def _systems(request, monkeypatch) -> None:
    """Play systems that cannot see an end without taking it, and that have no pidfd."""
    if request.param in {"without waitid", "with neither"}:
        monkeypatch.setattr(process, "_CAN_SEE", False)
    if request.param in {"without pidfd", "with neither"}:
        monkeypatch.delattr(os, "pidfd_open", raising=False)


def start(code: str) -> WaitedProcess:
    return WaitedProcess([sys.executable, "-c", code], pass_fds=[], env=dict(os.environ))


@pytest.mark.usefixtures("_systems")
@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("", 0), ("import os; os.abort()", -6)])
def test_how_it_ended(code: str, status: int) -> None:
    """Its status, or minus the number of its signal."""

    async def story() -> None:
        child = start(code)
        ended = await child.ended()
        assert ended.exit.code == status
        assert (await child.ended()) == ended

    asyncio.run(story())


@pytest.mark.usefixtures("_systems")
def test_what_it_used() -> None:
    """The most memory that it had at a time, and how long it computed."""

    async def story() -> None:
        hog, spinner = start(HOG), start(SPIN)
        peak, other = (await hog.ended()).exit.peak_rss, (await spinner.ended()).exit
        # What a process took before it became another program counts too: at most what these tests have taken.
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        assert 150 << 20 <= peak < max(400 << 20, 2 * before)
        assert other.peak_rss < max(150 << 20, 2 * before)
        assert 0.3 <= other.cpu < 10

    asyncio.run(story())


@pytest.mark.usefixtures("_systems")
def test_signals_reach_the_living_and_nobody_else(monkeypatch) -> None:
    """Once it was taken, its number may be another's: nothing is sent to it."""
    sent = []

    async def story() -> None:
        child = start(SLEEP)
        child.signal(signal.SIGTERM)
        assert (await child.ended()).exit.code == -signal.SIGTERM
        monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
        monkeypatch.setattr(signal, "pidfd_send_signal", lambda *words: sent.append(words), raising=False)
        child.signal(signal.SIGKILL)

    asyncio.run(story())
    assert sent == []


def test_a_zombie_still_tells_of_its_limits() -> None:
    """They are read between its end and its taking: afterwards nobody could."""
    limiting = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77)); raise SystemExit(1)"

    async def story() -> None:
        left = (await start(limiting).ended()).left
        assert "Max open files            77" in left["limits"]
        assert ":" in left["cgroup"]

    asyncio.run(story())


def test_a_status_that_somebody_else_took() -> None:
    """Then it is over, and nothing more is known; here the kernel does, as our children are ignored."""

    async def story() -> None:
        child = start("raise SystemExit(7)")
        ended = await child.ended()
        assert (ended.exit.code, ended.exit.peak_rss) == (LOST_STATUS, None)
        child.signal(signal.SIGKILL)

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        asyncio.run(story())
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_many_at_once_leave_no_zombie_and_no_handle() -> None:
    """Each is waited for by its own number: other children of this process stay who they are."""

    async def story() -> None:
        before = _handles()
        children = [start(f"raise SystemExit({number})") for number in range(8)]
        assert [(await child.ended()).exit.code for child in children] == list(range(8))
        assert _handles() <= before  # what other tests left behind may go meanwhile

    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as own:
        asyncio.run(story())
    assert own.returncode == 3


def _handles() -> set[str]:
    gc.collect()
    return {handle.name for handle in Path("/proc/self/fd").iterdir()}


def test_its_end_is_told_where_its_status_cannot_be_had(monkeypatch) -> None:
    """Without a free file descriptor `os.wait4` fails with an ImportError once it has taken the status."""

    async def scenario() -> None:
        monkeypatch.setitem(sys.modules, "resource", None)
        child = start("")
        async with asyncio.timeout(30):
            assert (await child.ended()).exit.code == LOST_STATUS
        child.signal(signal.SIGKILL)  # reaches nobody

    asyncio.run(scenario())
