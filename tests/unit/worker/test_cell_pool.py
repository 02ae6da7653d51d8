"""The pool of cells, with real processes: how many there are, who gets them, and when they are replaced."""

import asyncio
import json
import os
import signal
from datetime import UTC, datetime
from random import Random

import pytest

from holdfast.clock import SystemClock
from holdfast.codec import decode_result
from holdfast.core.job import Claim, ClaimRef
from holdfast.core.states import Move
from holdfast.policy import Policy
from holdfast.settings import Settings
from holdfast.worker.control import Control
from holdfast.worker.isolated import pool as pools
from holdfast.worker.isolated.messages import Furnish
from holdfast.worker.isolated.pool import CellPool
from holdfast.worker.judge import Judge
from holdfast.worker.lease import Lease

APP = """
import asyncio, logging, os, time
from pathlib import Path
from holdfast import Context, Holdfast

app = Holdfast("memory://")

@app.task(isolation="process")
def where(folder: str, together: int) -> int:
    Path(folder, f"{os.getpid()}.there").touch()
    while len(list(Path(folder).glob("*.there"))) < together:
        time.sleep(0.01)
    return os.getpid()

@app.task(isolation="process")
async def fork_and_return(folder: str) -> int:
    if os.fork() == 0:
        while not Path(folder, "next").exists():
            time.sleep(0.01)
    return os.getpid()

@app.task(isolation="process")
async def outlast_the_fork(folder: str) -> int:
    Path(folder, "next").touch()
    while os.waitpid(-1, os.WNOHANG) == (0, 0):
        await asyncio.sleep(0.01)
    return os.getpid()

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


class Bench:
    """A pool with real cells, and a worker that never loses its lease."""

    def __init__(self, folder, concurrency):
        settings = Settings(url="memory://", concurrency=concurrency)
        self.noticed = []
        self.progressed = []
        self._folder = str(folder)
        self.clock = SystemClock()
        furnish = Furnish("worker", "pooled_app:app", str(folder), settings, str(folder))
        self.pool = CellPool(furnish, self.clock, Random(1), self.noticed.append)
        self._lease = Lease(self.clock, 1000.0, 0.0, 1000.0)
        self._lease.renewed(self.clock.boot())
        self._fences = 0

    async def mark(self):
        """Mark a job, as if it were one that needs none."""
        return True

    async def run(self, together=0):
        """Run a job, which lasts until jobs have run in so many processes; return that in which it ran."""
        return await self.run_task("where", together=together)

    async def run_task(self, task, **arguments):
        """Run a job of a task; return the process in which it ran."""
        ending = await self.end_of(task, **arguments)
        assert ending.move is Move.COMPLETE, ending
        return decode_result(ending.result)

    async def end_of(self, task, **arguments):
        """Run a job of a task; return how it ends."""
        self._fences += 1
        payload = json.dumps({"v": 1, "args": {"folder": self._folder, **arguments}}).encode()
        claim = Claim(ClaimRef("job", self._fences), task, 1, payload, "default", 0, datetime.now(UTC), 0, 0, 5)
        control = Control(claim, self._lease, lambda control, _: self.progressed.append(control.claim.task))
        control.attempt = asyncio.current_task()
        judge = Judge(claim, Policy(isolation="process"), self.clock.now(), Random(1))
        ending = await self.pool.run(control, judge, self.mark, lambda _: None)
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


def test_as_many_cells_as_jobs_at_a_time_and_then_they_are_used_again(on_bench):
    """Three jobs at once have a process each; those after them find them warm."""

    async def trial(bench):
        first = await asyncio.gather(*(bench.run(3) for _ in range(3)))
        return first, [await bench.run() for _ in range(3)]

    first, then = on_bench(trial)
    assert len(set(first)) == 3
    assert set(then) <= set(first)
    assert all(map(is_gone, first)), "they went with the pool"


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


def test_a_fork_that_returns_does_not_end_the_next_job(on_bench):
    """Only the cell itself says how an attempt ended; a fork of it ends where its handler does."""

    async def trial(bench):
        return await bench.run_task("fork_and_return"), await bench.run_task("outlast_the_fork")

    first, then = on_bench(trial, concurrency=1)
    assert first == then


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
