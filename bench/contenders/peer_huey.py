"""Huey on SQLite, PostgreSQL or Redis: its own consumer, one thread (more are slower), polling every 10 ms.

On SQLite `fsync=True` is the durability that Standfast always has; without it huey is faster, and a power loss
takes what was accepted last.
"""

import sys
import time
from pathlib import Path

from measured import FOLDER, TALLY, URL, drained, on_time, picked_up, workers


def _make():  # noqa: ANN202 - one of two classes
    if URL.startswith("sqlite"):
        from huey import SqliteHuey  # noqa: PLC0415 - each needs a library of its own

        return SqliteHuey(filename=FOLDER / "huey.db", fsync=True)
    if URL.startswith("redis"):
        from huey import RedisHuey  # noqa: PLC0415 - each needs a library of its own

        return RedisHuey(url=URL, blocking=True)
    from huey.contrib.sql_huey import SqlHuey  # noqa: PLC0415 - each needs a library of its own

    return SqlHuey(database=URL)


huey = _make()


@huey.task()
def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing."""
    TALLY.tick()


@huey.task()
def timed(since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)


def _consumer(count: int = 1):  # noqa: ANN202
    options = ["--workers", "1", "--worker-type", "thread", "--delay", "0.01", "--max-delay", "0.01"]
    return workers([Path(sys.executable).with_name("huey_consumer"), "peer_huey.huey", *options], count)


def one_by_one(count: int) -> float:
    """Return jobs per second."""
    began = time.perf_counter()
    for number in range(count):
        noop(number)
    return count / (time.perf_counter() - began)


def drain(count: int, processes: int = 1) -> float:
    """Return jobs per second."""
    one_by_one(count)
    with _consumer(processes):
        return drained(count)


def pickup(count: int) -> list[float]:
    """Return milliseconds."""
    with _consumer():
        return picked_up(timed, count)


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    with _consumer():
        return on_time(lambda due_at, delay: timed.schedule((due_at,), delay=delay), count)


def drain_two(count: int) -> float:
    """Return jobs per second of two consumers."""
    return drain(count, 2)
