"""Procrastinate on PostgreSQL: psycopg, its own worker, a hundred jobs at a time."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TypeVar

from measured import TALLY, URL, drained, on_time, picked_up, workers
from procrastinate import App, PsycopgConnector

T = TypeVar("T")

app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="noop")
async def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing."""
    TALLY.tick()


@app.task(name="timed")
async def timed(since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)


async def _work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=100, install_signal_handlers=True)


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers([sys.executable, "-c", "import asyncio, peer_procrastinate as p; asyncio.run(p._work())"], count)


async def _open() -> None:
    await app.open_async()


async def _make_tables() -> None:
    if not await app.check_connection_async():
        await app.schema_manager.apply_schema_async()


def _opened(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        async with app.open_async():
            await _make_tables()
            return await work()

    return asyncio.run(run())


def one_by_one(count: int) -> float:
    """Return jobs per second."""

    async def enqueue() -> float:
        began = time.perf_counter()
        for number in range(count):
            await noop.defer_async(n=number)
        return count / (time.perf_counter() - began)

    return _opened(enqueue)


def in_bulk(count: int) -> float:
    """Return jobs per second, a thousand in each call."""

    async def enqueue() -> float:
        began = time.perf_counter()
        for start in range(0, count, 1000):
            await noop.batch_defer_async(*({"n": number} for number in range(start, min(start + 1000, count))))
        return count / (time.perf_counter() - began)

    return _opened(enqueue)


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
    _opened(lambda: asyncio.sleep(0))
    with asyncio.Runner() as runner, _workers():
        runner.run(_open())
        found = picked_up(lambda since: runner.run(timed.defer_async(since=since)), count)
        runner.run(app.close_async())
        return found


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    _opened(lambda: asyncio.sleep(0))
    with asyncio.Runner() as runner, _workers():
        runner.run(_open())
        found = on_time(
            lambda due_at, _: runner.run(
                timed.configure(schedule_at=datetime.fromtimestamp(due_at, UTC)).defer_async(since=due_at)
            ),
            count,
        )
        runner.run(app.close_async())
        return found
