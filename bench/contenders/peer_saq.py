"""SAQ on Redis or PostgreSQL: its own worker, one process, a hundred jobs at a time."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from measured import TALLY, URL, drained, on_time, picked_up, workers
from saq import Queue

T = TypeVar("T")

queue = Queue.from_url(URL)


async def noop(_ctx: Any, *, n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing."""
    TALLY.tick()


async def timed(_ctx: Any, *, since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)


settings = {"queue": queue, "functions": [noop, timed], "concurrency": 100}


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers([sys.executable, "-m", "saq", "peer_saq.settings", "--workers", "1"], count)


def _connected(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        await queue.connect()
        try:
            return await work()
        finally:
            await queue.disconnect()

    return asyncio.run(run())


def one_by_one(count: int) -> float:
    """Return jobs per second."""

    async def enqueue() -> float:
        began = time.perf_counter()
        for number in range(count):
            await queue.enqueue("noop", n=number)
        return count / (time.perf_counter() - began)

    return _connected(enqueue)


def drain(count: int, processes: int = 1) -> float:
    """Return jobs per second."""
    one_by_one(count)
    with _workers(processes):
        return drained(count)


def drain_two(count: int) -> float:
    """Return jobs per second of two workers."""
    return drain(count, 2)


def pickup(count: int) -> list[float]:
    """Return milliseconds."""
    with asyncio.Runner() as runner, _workers():
        runner.run(queue.connect())
        found = picked_up(lambda since: runner.run(queue.enqueue("timed", since=since)), count)
        runner.run(queue.disconnect())
        return found


def delayed(count: int) -> list[float]:
    """Return milliseconds late; SAQ takes whole seconds, so jobs are due at such."""
    with asyncio.Runner() as runner, _workers():
        runner.run(queue.connect())
        found = on_time(
            lambda due_at, _: runner.run(queue.enqueue("timed", since=int(due_at) + 1, scheduled=int(due_at) + 1)),
            count,
        )
        runner.run(queue.disconnect())
        return found
