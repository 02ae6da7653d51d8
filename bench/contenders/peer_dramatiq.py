"""Dramatiq on Redis: its own worker, one process, eight threads as it has by default."""

import sys
import time
from contextlib import AbstractContextManager

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from measured import TALLY, URL, drained, on_time, picked_up, workers

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing."""
    TALLY.tick()


@dramatiq.actor
def timed(since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers([sys.executable, "-m", "dramatiq", "peer_dramatiq", "--processes", "1", "--threads", "8"], count)


def one_by_one(count: int) -> float:
    """Return jobs per second."""
    began = time.perf_counter()
    for number in range(count):
        noop.send(number)
    return count / (time.perf_counter() - began)


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
    with _workers():
        return picked_up(timed.send, count)


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    with _workers():
        return on_time(
            lambda due_at, delay: timed.send_with_options(args=(due_at,), delay=max(0, round(delay * 1000))), count
        )
