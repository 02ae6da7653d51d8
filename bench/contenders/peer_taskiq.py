"""Taskiq on Redis: its list queue, which is its fastest, and its own worker with one process."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from measured import TALLY, URL, drained, picked_up, workers
from taskiq_redis import ListQueueBroker

T = TypeVar("T")

broker = ListQueueBroker(url=URL)


@broker.task
async def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing."""
    TALLY.tick()


@broker.task
async def timed(since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)


def _workers(count: int = 1) -> AbstractContextManager[None]:
    command = [
        sys.executable,
        "-m",
        "taskiq",
        "worker",
        "peer_taskiq:broker",
        "--workers",
        "1",
        "--log-level",
        "ERROR",
    ]
    return workers([*command, "--max-async-tasks", "500", "--max-prefetch", "500"], count)


def _started(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        await broker.startup()
        try:
            return await work()
        finally:
            await broker.shutdown()

    return asyncio.run(run())


def one_by_one(count: int) -> float:
    """Return jobs per second."""

    async def enqueue() -> float:
        began = time.perf_counter()
        for number in range(count):
            await noop.kiq(number)
        return count / (time.perf_counter() - began)

    return _started(enqueue)


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
        runner.run(broker.startup())
        found = picked_up(lambda since: runner.run(timed.kiq(since)), count)
        runner.run(broker.shutdown())
        return found
