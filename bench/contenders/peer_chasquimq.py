"""ChasquiMQ on Redis 8.6 or newer: an engine in Rust, handlers in Python. No history, no fences."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from chasquimq import Job, Queue, Worker
from measured import TALLY, URL, drained, on_time, picked_up, workers

T = TypeVar("T")

CONCURRENCY = 500
BULK = 500


async def handle(job: Job) -> None:
    """Do nothing, or note the time since then."""
    if job.name == "noop":
        TALLY.tick()
    else:
        TALLY.note(time.time() - job.data["since"])


async def _work() -> None:
    async with Worker("bench", handle, redis_url=URL, concurrency=CONCURRENCY) as worker:
        await worker.run()


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers([sys.executable, "-c", "import asyncio, peer_chasquimq as p; asyncio.run(p._work())"], count)


def _with_queue(work: Callable[[Queue], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Queue("bench", redis_url=URL) as queue:
            return await work(queue)

    return asyncio.run(run())


def one_by_one(count: int) -> float:
    """Return jobs per second."""

    async def enqueue(queue: Queue) -> float:
        began = time.perf_counter()
        for number in range(count):
            await queue.add("noop", {"n": number})
        return count / (time.perf_counter() - began)

    return _with_queue(enqueue)


def in_bulk(count: int) -> float:
    """Return jobs per second."""

    async def enqueue(queue: Queue) -> float:
        began = time.perf_counter()
        for start in range(0, count, BULK):
            numbers = range(start, min(start + BULK, count))
            await queue.add_bulk([{"name": "noop", "data": {"n": number}} for number in numbers])
        return count / (time.perf_counter() - began)

    return _with_queue(enqueue)


def drain(count: int, processes: int = 1) -> float:
    """Return jobs per second."""
    in_bulk(count)
    with _workers(processes):
        return drained(count)


def drain_two(count: int) -> float:
    """Return jobs per second of two workers."""
    return drain(count, 2)


def pickup(count: int) -> list[float]:
    """Return milliseconds."""
    with asyncio.Runner() as runner, _workers():
        queue = Queue("bench", redis_url=URL)
        return picked_up(lambda since: runner.run(queue.add("timed", {"since": since})), count)


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    with asyncio.Runner() as runner, _workers():
        queue = Queue("bench", redis_url=URL)
        return on_time(
            lambda due_at, delay: runner.run(
                queue.add("timed", {"since": due_at}, delay_ms=max(0, round(delay * 1000)))
            ),
            count,
        )
