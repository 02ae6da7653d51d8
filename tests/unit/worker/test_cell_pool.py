"""The pool of cells, with real processes: how many there are, who gets them, and when they are replaced."""

import asyncio
import json
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from standfast.model.clock import SystemClock
from standfast.model.codec import decode_result
from standfast.model.incidents import Trouble
from standfast.model.job import Claim, ClaimRef
from standfast.model.policy import Policy
from standfast.model.states import Move
from standfast.settings import Settings
from standfast.worker.completer import Judge
from standfast.worker.control import Control, StopReason
from standfast.worker.isolation import pool as pools
from standfast.worker.isolation import remote_attempt
from standfast.worker.isolation.messages import Furnish
from standfast.worker.isolation.pool import SubprocessPool
from standfast.worker.lease import Lease

APP = """
import asyncio, logging, os, time
from pathlib import Path
from standfast import Context, Standfast

app = Standfast("memory://")

@app.task(isolation="process")
def where(folder: str, together: int) -> int:
    Path(folder, f"{os.getpid()}.there").touch()
    while len(list(Path(folder).glob("*.there"))) < together:
        time.sleep(0.01)
    return os.getpid()

@app.task(isolation="process")
async def fork_and_return(folder: str) -> int:
    if fork := os.fork():
        os.waitpid(fork, 0)
    return os.getpid()

@app.task(isolation="process")
def fork_in_thread(folder: str) -> int:
    if fork := os.fork():
        os.waitpid(fork, 0)
    return os.getpid()

@app.task(isolation="process")
def fork_in_thread_and_raise(folder: str) -> int:
    if fork := os.fork():
        os.waitpid(fork, 0)
        return os.getpid()
    raise ValueError("on purpose")

@app.task(isolation="process")
def leave_process(folder: str) -> int:
    if (fork := os.fork()) == 0:
        time.sleep(600)
    Path(folder, "left").write_text(str(fork))
    return os.getpid()

kept = []

@app.task(isolation="process")
def hold(folder: str, megabytes: int) -> int:
    kept.append(bytearray(megabytes * 1_000_000))
    return os.getpid()

@app.task(isolation="process")
def share(folder: str, megabytes: int, forks: int) -> int:
    held = bytearray(megabytes * 1_000_000)
    started = [os.fork() for _ in range(forks) if os.getpid() == pid] if (pid := os.getpid()) else []
    if 0 in started:
        time.sleep(0.5)
        os._exit(0)
    for fork in started:
        os.waitpid(fork, 0)
    return pid

@app.task(isolation="process")
async def block_loop(folder: str) -> int:
    asyncio.get_running_loop().call_later(0.01, time.sleep, 600)
    return os.getpid()

@app.task
def part() -> None: ...

@app.task(isolation="process")
def whole(folder: str) -> None:
    part.enqueue().result()

left_behind = set()

@app.task(isolation="process")
async def leave_behind(ctx: Context, folder: str) -> int:
    async def haunt():
        while not Path(folder, "next").exists():
            await asyncio.sleep(0.01)
        ctx.progress(99)
        logging.getLogger("app").warning("still here")
        Path(folder, "haunted").touch()
    left_behind.add(asyncio.create_task(haunt()))
    return os.getpid()

@app.task(isolation="process")
async def be_haunted(folder: str) -> int:
    Path(folder, "next").touch()
    while not Path(folder, "haunted").exists():
        await asyncio.sleep(0.01)
    return os.getpid()

@app.task(isolation="process")
def exit_(folder: str) -> None:
    os._exit(3)

@app.task(isolation="process")
def close_all(folder: str, and_open: bool, for_ever: bool) -> None:
    os.closerange(0, 4096)
    for _ in range(64 if and_open else 0):
        os.open(os.devnull, os.O_RDWR)
    while for_ever:
        time.sleep(1)
"""


ISOLATED = Policy(isolation="process")
WITHIN_256_MB = Policy(isolation="process", memory=256_000_000)


class Bench:
    """A pool with real cells, and a worker that never loses its lease."""

    def __init__(self, folder, concurrency):
        settings = Settings(url="memory://", concurrency=concurrency)
        self.noticed = []
        self.progressed = []
        self._folder = str(folder)
        self.clock = SystemClock()
        furnish = Furnish("worker", "pooled_app:app", str(folder), settings, str(folder))
        self.pool = SubprocessPool(furnish, self.clock, Random(1), self.noticed.append)
        self._lease = Lease(self.clock, 1000.0, 0.0, 1000.0)
        self._lease.renewed(self.clock.boot())
        self._fences = 0
        self.closed_for = None

    async def mark(self):
        """Mark a job, as if it were one that needs none."""
        return True

    async def run(self, together=0):
        """Run a job, which lasts until jobs have run in so many processes; return that in which it ran."""
        return await self.run_task("where", together=together)

    async def run_task(self, task, policy=ISOLATED, **arguments):
        """Run a job of a task; return the process in which it ran."""
        ending = await self.end_of(task, policy, **arguments)
        assert ending.move is Move.COMPLETE, ending
        return decode_result(ending.result)

    async def end_of(self, task, policy=ISOLATED, **arguments):
        """Run a job of a task; return how it ends."""
        return await self.end_of_told(self.control(task, **arguments), policy)

    def control(self, task, **arguments):
        """Return the live side of a job of a task."""
        self._fences += 1
        payload = json.dumps({"v": 1, "args": {"folder": self._folder, **arguments}}).encode()
        claim = Claim(ClaimRef("job", self._fences), task, 1, payload, "default", 0, datetime.now(UTC), 0, 0, 5)
        return Control(claim, self._lease, lambda control, _: self.progressed.append(control.claim.task))

    async def end_of_told(self, control, policy=ISOLATED):
        """Run a job that somebody may tell to stop; return how it ends."""
        control.attempt = asyncio.current_task()
        judge = Judge(control.claim, policy, self.clock.now(), Random(1))
        ending = await self.pool.run(control, judge, self.mark, lambda: self.closed_for, lambda _: None)
        return control.with_log(ending)


@pytest.fixture
def on_bench(tmp_path):
    """Give a way to try a pool; afterwards none of its cells is left."""
    (tmp_path / "pooled_app.py").write_text(APP)

    def attempt(trial, concurrency=3):
        async def go():
            bench = Bench(tmp_path, concurrency)
            try:
                return await trial(bench)
            finally:
                await bench.pool.close()

        return asyncio.run(go())

    return attempt


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def has_ended(pid):
    """Tell whether a process that is not ours has ended, even if nobody has reaped it yet."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
    return listed.stdout.strip()[:1] in {"", "Z"}


def test_as_many_cells_as_jobs_at_a_time_and_then_they_are_used_again(on_bench):
    """Three jobs at once have a process each; those after them find them warm."""

    async def trial(bench):
        first = await asyncio.gather(*(bench.run(3) for _ in range(3)))
        return first, [await bench.run() for _ in range(3)]

    first, then = on_bench(trial)
    assert len(set(first)) == 3
    assert set(then) <= set(first)
    assert all(map(is_gone, first)), "they went with the pool"


def test_a_worker_knows_which_jobs_its_isolated_handlers_wait_for_and_may_kill_one(on_bench):
    """They take its places, and so count for its deadlock; to kill one ends its cell, and the job as cancelled."""

    async def trial(bench):
        control = bench.control("whole")
        ending = asyncio.ensure_future(bench.end_of_told(control))
        while not control.awaited:  # noqa: ASYNC110 - a cell rings no bell
            await asyncio.sleep(0.02)
        control.kill()
        return control, await ending

    control, ending = on_bench(trial)
    assert [job_id.count("-") for job_id in control.awaited] == [4]
    assert (ending.move, control.kill) == (Move.CANCEL, None)


def test_no_more_cells_than_slots(on_bench):
    """Whoever finds no free cell waits for one."""

    async def trial(bench):
        return await asyncio.gather(*(bench.run(2) for _ in range(6)))

    assert len(set(on_bench(trial, concurrency=2))) == 2


def test_a_worn_cell_is_replaced(on_bench, monkeypatch):
    """After so many jobs the next one finds another process, and the old one ends."""
    monkeypatch.setattr(pools, "MOST_JOBS", 2)

    async def trial(bench):
        return [await bench.run() for _ in range(5)]

    pids = on_bench(trial, concurrency=1)
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]


def test_an_idle_cell_that_dies_is_replaced(on_bench):
    """Nobody is harmed, and nobody is given a dead one."""

    async def trial(bench):
        before = await bench.run()
        os.kill(before, signal.SIGKILL)
        while not is_gone(before):  # noqa: ASYNC110 - a process rings no bell
            await asyncio.sleep(0.01)
        return before, await bench.run(), bench.noticed

    before, after, noticed = on_bench(trial, concurrency=1)
    assert before != after
    assert noticed == []


def test_what_nobody_needs_is_let_go(on_bench, monkeypatch):
    """After a while without work one cell is left."""
    monkeypatch.setattr(pools, "IDLE_FOR", 0.1)

    async def trial(bench):
        pids = await asyncio.gather(*(bench.run(3) for _ in range(3)))
        while sum(map(is_gone, pids)) < 2:  # noqa: ASYNC110 - a process rings no bell
            await asyncio.sleep(0.01)
        return await bench.run()

    on_bench(trial)


@pytest.mark.parametrize("task", ["fork_and_return", "fork_in_thread", "fork_in_thread_and_raise"])
def test_a_fork_that_returns_ends_there(on_bench, task):
    """Only the cell itself says how an attempt ended; a fork of it ends where its handler does."""

    async def trial(bench):
        return await asyncio.wait_for(bench.run_task(task), 30), await bench.run()

    first, then = on_bench(trial, concurrency=1)
    assert first == then


# -- what a job leaves for the next ----------------------------------------------------------------------------


def test_a_cell_in_which_a_process_was_left_is_not_handed_on(on_bench, tmp_path):
    """The next job gets another one, whether it waits or comes later; what was left ends."""

    async def trial(bench):
        pids = await asyncio.gather(bench.run_task("leave_process"), bench.run())
        pids += [await bench.run_task("leave_process"), await bench.run()]
        return pids

    pids = on_bench(trial, concurrency=1)
    assert len(set(pids)) == 3
    assert pids[1] == pids[2], "that one left nothing"
    assert has_ended(int((tmp_path / "left").read_text()))


def test_a_job_is_not_charged_for_what_another_left(on_bench):
    """A cell holds 100 MB of an earlier job; the next one takes 200 MB of its 256, in the same cell or another."""

    async def trial(bench):
        left = await bench.run_task("hold", megabytes=100)
        return left, await bench.end_of("hold", WITHIN_256_MB, megabytes=200), bench.noticed

    left, ending, noticed = on_bench(trial, concurrency=1)
    assert ending.move is Move.COMPLETE, ending
    assert decode_result(ending.result) == left
    assert noticed == []


def test_a_cell_full_of_another_job_is_not_handed_on(on_bench, monkeypatch):
    """More than half of the next limit is taken: that job gets another cell; one without a limit does not."""
    monkeypatch.setattr(pools, "MOST_GROWTH", 10**12)

    async def trial(bench):
        full = await bench.run_task("hold", megabytes=140)
        return full, await bench.run(), await bench.run_task("hold", WITHIN_256_MB, megabytes=1)

    full, unlimited, limited = on_bench(trial, concurrency=1)
    assert full == unlimited != limited


def test_the_limit_holds_in_a_cell_that_was_used(on_bench):
    """What another left changes neither that a job is failed, nor the words for it."""

    async def trial(bench):
        await bench.run_task("hold", megabytes=100)
        return await bench.end_of("hold", WITHIN_256_MB, megabytes=1_000), bench.noticed

    ending, [noticed] = on_bench(trial, concurrency=1)
    assert ending.failure.type == "MemoryError"
    said = re.fullmatch(r"out of memory \(limit 256 MB, peak (\d+) MB\)", ending.failure.message)
    assert int(said[1]) < 100, "that which it was refused, and what another left, are no part of it"
    assert noticed.trouble is Trouble.OUT_OF_MEMORY


def test_what_forks_share_counts_once(on_bench):
    """A job of 120 MB forks four times: it takes no more than that."""

    async def trial(bench):
        return await bench.end_of("share", WITHIN_256_MB, megabytes=120, forks=4)

    assert on_bench(trial, concurrency=1).move is Move.COMPLETE


# -- what did not begin ----------------------------------------------------------------------------------------


def test_a_window_that_begins_while_a_job_waits_for_its_cell_puts_it_off(on_bench):
    """It is put off until the window ends, and the cell goes to the next."""

    async def trial(bench):
        waiting = asyncio.create_task(bench.end_of("where", together=0))
        await asyncio.sleep(0)
        bench.closed_for = timedelta(hours=2)
        put_off = await waiting
        bench.closed_for = None
        return put_off, await bench.run()

    ending, _ = on_bench(trial, concurrency=1)
    assert (ending.move, ending.delay) == (Move.SNOOZE, timedelta(hours=2))


@pytest.mark.parametrize(
    ("why", "move"), [(StopReason.STOP, Move.SNOOZE), (StopReason.CANCEL, Move.CANCEL), (StopReason.LOST, None)]
)
def test_a_stop_before_the_cell_took_it_up_charges_nothing(on_bench, why, move):
    """Its only attempt did not begin: the job goes back, is cancelled, or is another's."""

    async def trial(bench):
        first = await bench.run()
        os.kill(first, signal.SIGSTOP)
        control = bench.control("where", together=0)
        control.claim = replace(control.claim, max_attempts=1)
        given = asyncio.create_task(bench.end_of_told(control))
        while not control.cancellable:  # noqa: ASYNC110 - it has its cell within a turn or two of the loop
            await asyncio.sleep(0)
        control.interrupt(why)
        control.interrupt(why)
        return await given, bench.noticed

    ending, noticed = on_bench(trial, concurrency=1)
    assert (ending and ending.move) is move
    assert noticed == []


def test_time_counts_from_the_moment_at_which_the_cell_took_it_up(on_bench, monkeypatch):
    """A cell that an earlier job keeps busy is replaced after a while, and nothing is charged for it."""
    monkeypatch.setattr(remote_attempt, "BEGIN_WITHIN", 0.5)

    async def trial(bench):
        first = await bench.run_task("block_loop")
        await asyncio.sleep(0.2)  # until its loop is blocked: nothing tells
        timely = Policy(isolation="process", timeout=0.1)
        return first, await bench.end_of("where", timely, together=0), await bench.run(), bench.noticed

    first, ending, then, noticed = on_bench(trial, concurrency=1)
    assert ending.move is Move.SNOOZE
    assert first != then
    assert noticed == []


def test_what_a_job_leaves_behind_speaks_for_no_other(on_bench):
    """Its progress and its log are not those of the next job; and the one after that gets another process."""

    async def trial(bench):
        haunting = await bench.run_task("leave_behind")
        haunted = await bench.end_of("be_haunted")
        return bench, haunting, haunted, await bench.run()

    bench, haunting, haunted, then = on_bench(trial, concurrency=1)
    assert decode_result(haunted.result) == haunting
    assert bench.progressed == []
    assert haunted.log is None
    assert then != haunting


@pytest.fixture
def _ends_ignored():
    """Have the kernel reap all processes that this one starts, as if code in the worker had asked for it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("_ends_ignored")
def test_the_end_of_a_cell_is_seen_though_somebody_else_reaps_it(on_bench):
    """How it ended is not known then, but the attempt is over, and the next one finds another cell."""

    async def trial(bench):
        return await bench.end_of("exit_"), await bench.run(), bench.noticed

    ending, _, [noticed] = on_bench(trial, concurrency=1)
    assert ending.move is Move.RETRY
    assert "its process ended; how is not known" in ending.failure.message
    assert "took at most" not in noticed.parts["exit"]


@pytest.mark.parametrize(("and_open", "for_ever"), [(False, True), (False, False), (True, True), (True, False)])
def test_a_handler_that_closes_the_line_ends_its_cell(on_bench, and_open, for_ever):
    """Nobody could hear of it any more, nor tell it anything; whatever has the number of the line now."""

    async def trial(bench):
        return await bench.end_of("close_all", and_open=and_open, for_ever=for_ever), await bench.run()

    ending, _ = on_bench(trial, concurrency=1)
    assert (ending.move, ending.failure.type) == (Move.RETRY, "Crash")


def test_a_cell_that_dies_before_the_job_reaches_it_is_not_charged_to_it(on_bench):
    """It is put off, and nobody is told of a crash; it runs elsewhere."""

    async def trial(bench):
        first = await bench.run()
        os.kill(first, signal.SIGSTOP)
        given = asyncio.create_task(bench.end_of("where", together=0))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        return await given, bench.noticed, await bench.run()

    ending, noticed, _ = on_bench(trial, concurrency=1)
    assert ending.move is Move.SNOOZE
    assert noticed == []
