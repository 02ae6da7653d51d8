"""PgQueuer on PostgreSQL: asyncpg, its own manager, 500 jobs in a batch."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TypeVar

import asyncpg
from measured import TALLY, URL, drained, on_time, picked_up, workers
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

T = TypeVar("T")

BATCH = 500


async def create_pgqueuer() -> PgQueuer:
    """Return the worker's side."""
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @pgq.entrypoint("noop")
    async def noop(_job: Job) -> None:
        TALLY.tick()

    @pgq.entrypoint("timed")
    async def timed(job: Job) -> None:
        TALLY.note(time.time() - float(job.payload or b""))

    return pgq


async def _work() -> None:
    await (await create_pgqueuer()).run(batch_size=BATCH)


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers([sys.executable, "-c", "import asyncio, peer_pgqueuer as p; asyncio.run(p._work())"], count)


def _with_queries(work: Callable[[Queries], Awaitable[T]]) -> T:
    async def run() -> T:
        connection = await asyncpg.connect(URL)
        try:
            queries = Queries(AsyncpgDriver(connection))
            if not await queries.has_table("pgqueuer"):
                await queries.install()
            return await work(queries)
        finally:
            await connection.close()

    return asyncio.run(run())


def one_by_one(count: int) -> float:
    """Return jobs per second."""

    async def enqueue(queries: Queries) -> float:
        began = time.perf_counter()
        for number in range(count):
            await queries.enqueue("noop", str(number).encode(), 0)
        return count / (time.perf_counter() - began)

    return _with_queries(enqueue)


def in_bulk(count: int) -> float:
    """Return jobs per second, a thousand in each call."""

    async def enqueue(queries: Queries) -> float:
        began = time.perf_counter()
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            await queries.enqueue(["noop"] * len(numbers), [str(n).encode() for n in numbers], [0] * len(numbers))
        return count / (time.perf_counter() - began)

    return _with_queries(enqueue)


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
    _with_queries(lambda _: asyncio.sleep(0))
    with asyncio.Runner() as runner, _workers():
        queries = Queries(AsyncpgDriver(runner.run(asyncpg.connect(URL))))
        return picked_up(lambda since: runner.run(queries.enqueue("timed", str(since).encode(), 0)), count)


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    _with_queries(lambda _: asyncio.sleep(0))
    with asyncio.Runner() as runner, _workers():
        queries = Queries(AsyncpgDriver(runner.run(asyncpg.connect(URL))))
        return on_time(
            lambda due_at, delay: runner.run(
                queries.enqueue("timed", str(due_at).encode(), 0, timedelta(seconds=delay))
            ),
            count,
        )
