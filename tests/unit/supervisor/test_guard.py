"""The guard: when its supervisor is gone it ends what is left of the children, and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from standfast.settings import Settings
from standfast.supervisor import reaper_main
from standfast.supervisor.reaper import COMMAND, Reaper, patience_for
from standfast.supervisor.reaper import PATIENCE as LONGEST_PATIENCE

PATIENCE = 1.0
COMMAND_FOR_TESTS = (*COMMAND[:-1], str(PATIENCE))
PATIENT_COMMAND = (*COMMAND[:-1], "600")
WITHIN = 30.0

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen]]:
    """Give a place for processes, which are gone in the end."""
    processes: list[subprocess.Popen] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def sleeper(started) -> subprocess.Popen:
    """Give a process that does not end by itself."""
    started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
    return started[-1]


@pytest.fixture
def guard(started) -> subprocess.Popen:
    """Give a guard that is told by its standard input."""
    started.append(
        subprocess.Popen(COMMAND_FOR_TESTS, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    )
    return started[-1]


def tell(guard: subprocess.Popen, words: str) -> None:
    guard.stdin.write(words.encode())
    guard.stdin.flush()


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return reaper_main.started_of(pid) is not None
    return False


def until(predicate) -> None:
    give_up_at = time.monotonic() + WITHIN
    while not predicate():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_what_a_dead_supervisor_leaves_is_killed(guard, sleeper) -> None:
    """Not before it had time to leave by itself; and it is told."""
    tell(guard, f"+{sleeper.pid}\n")
    begun = time.monotonic()
    guard.stdin.close()
    assert sleeper.wait(WITHIN) == -signal.SIGKILL
    assert time.monotonic() - begun >= PATIENCE
    assert guard.wait(WITHIN) == 0
    assert f"process {sleeper.pid} was left behind: killed" in guard.stderr.read().decode()


def test_so_is_what_its_children_have_started_in_sessions_of_their_own(guard, started) -> None:
    """Also where the child itself is gone already, if it was there for a moment."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    started.append(parent)
    offspring = int(parent.stdout.readline())
    tell(guard, f"+{parent.pid}\n")
    try:
        if reaper_main.knows_children():
            time.sleep(2 * reaper_main.LEARN_EVERY)  # nothing tells when it has looked
            parent.kill()
            parent.wait()
        guard.stdin.close()
        until(lambda: not is_alive(offspring))
        assert guard.wait(WITHIN) == 0
    finally:
        if is_alive(offspring):
            os.kill(offspring, signal.SIGKILL)


def test_who_has_ended_before_is_none_of_its_business(guard, sleeper) -> None:
    """A pid may be another's by then. With nobody left it ends at once."""
    tell(guard, f"+{sleeper.pid}\n-{sleeper.pid}\n+{2**22 + 1}\n")
    begun = time.monotonic()
    guard.stdin.close()
    assert guard.wait(WITHIN) == 0
    assert time.monotonic() - begun < PATIENCE + WITHIN
    assert sleeper.poll() is None


def test_a_pid_that_was_given_to_another_process_is_left_alone(sleeper) -> None:
    known = {sleeper.pid: ("long before", sleeper.pid)}
    reaper_main.wait_and_kill(known, patience=0.0)
    assert known == {}
    assert sleeper.poll() is None


def test_signals_to_the_group_do_not_end_it(guard) -> None:
    tell(guard, "+1\n-1\n")
    until(lambda: _ignores(guard.pid, signal.SIGTERM))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        guard.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        guard.wait(0.3)
    guard.stdin.close()
    assert guard.wait(WITHIN) == 0


def _ignores(pid: int, number: int) -> bool:
    if sys.platform != "linux":
        time.sleep(1)
        return True
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [mask] = [line.split()[1] for line in lines if line.startswith("SigIgn")]
    return bool(int(mask, 16) >> (number - 1) & 1)


async def pid_of(guard: Reaper, other_than: int | None = None) -> int:
    while guard.pid in (None, other_than):  # noqa: ASYNC110 - a guard tells nobody that it has begun
        await asyncio.sleep(0.01)
    return guard.pid


def test_a_guard_that_dies_is_started_again_and_told_all(sleeper, caplog) -> None:
    """Said once; and a clean stop leaves none behind."""

    async def story() -> None:
        guard = Reaper(COMMAND_FOR_TESTS)
        running = asyncio.ensure_future(guard.run())
        await pid_of(guard)
        guard.add(sleeper.pid)
        first = guard.pid
        os.kill(first, signal.SIGKILL)
        second = await pid_of(guard, other_than=first)
        running.cancel()  # as when the supervisor fails: its child lives
        await asyncio.wait([running])
        await asyncio.to_thread(sleeper.wait, WITHIN)
        await asyncio.to_thread(until, lambda: not is_alive(second))
        await asyncio.sleep(0.2)  # for the loop to take note of its end

    asyncio.run(story())
    assert sleeper.returncode == -signal.SIGKILL
    assert caplog.text.count("no guard ends the children") == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_short_lease_leaves_orphans_less_time(sleeper, restarted) -> None:
    """The guard is told of it, also where it has to be started again after that."""

    async def story() -> None:
        guard = Reaper(PATIENT_COMMAND)
        running = asyncio.ensure_future(guard.run())
        await pid_of(guard)
        guard.learn(Settings(lease=1.5))
        guard.add(sleeper.pid)
        if restarted:
            os.kill(first := guard.pid, signal.SIGKILL)
            await pid_of(guard, other_than=first)
        running.cancel()
        await asyncio.wait([running])
        await asyncio.to_thread(sleeper.wait, WITHIN)
        await asyncio.sleep(0.3)  # for the loop to take note of the guard's end

    asyncio.run(story())
    assert sleeper.returncode == -signal.SIGKILL


@pytest.mark.parametrize("lease", [1.0, 2.0, 3.0, 6.0])
def test_orphans_are_killed_before_their_jobs_may_be_anothers(lease) -> None:
    settings = Settings(lease=lease)
    assert 0 < patience_for(settings) < lease - settings.beat_every


def test_with_the_default_lease_they_have_the_whole_time() -> None:
    assert patience_for(Settings()) == LONGEST_PATIENCE


def test_after_a_quiet_time_the_death_of_a_guard_is_a_new_trouble(caplog) -> None:
    """It is told again, and the pause before the next is the first, short one."""

    async def story() -> None:
        guard = Reaper(COMMAND_FOR_TESTS, settled_after=0.0)
        running = asyncio.ensure_future(guard.run())
        for _ in range(4):
            await pid_of(guard)
            os.kill(last := guard.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN):
                await pid_of(guard, other_than=last)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(story())
    assert caplog.text.count("no guard ends the children") == 4


def test_a_clean_stop_waits_for_the_end_of_the_guard(sleeper) -> None:
    async def story() -> int:
        guard = Reaper(COMMAND_FOR_TESTS)
        running = asyncio.ensure_future(guard.run())
        await pid_of(guard)
        pid = guard.pid
        guard.add(sleeper.pid)
        guard.remove(sleeper.pid)
        running.cancel()
        await asyncio.wait([running])
        return pid

    assert not is_alive(asyncio.run(story()))
    assert sleeper.poll() is None


def test_where_it_cannot_be_started_that_is_said_once(caplog) -> None:
    async def story() -> None:
        guard = Reaper(("/nowhere/python",))
        running = asyncio.ensure_future(guard.run())
        guard.add(1)
        await asyncio.sleep(2.0)  # it is tried twice within this time
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(story())
    assert caplog.text.count("no guard ends the children") == 1
