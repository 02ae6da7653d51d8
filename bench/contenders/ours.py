"""Standfast as it ships: the public API, and `standfast worker` in processes of its own, with its defaults."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from measured import URL, drained, on_time, picked_up, workers

os.environ["STANDFAST_URL"] = URL

import ours_app

from processes import cpu_seconds
from standfast import State
from standfast.stores.contract import count_states

_WORKER = [sys.executable, "-c", "from standfast.cli.main import main; main()", "worker", "ours_app:app"]


@contextmanager
def _ready() -> Iterator[None]:
    """Make the tables, as the others have made theirs before they are measured, and close at the end."""
    with ours_app.app as app:
        app.prepare()
        yield


def _workers(count: int = 1) -> AbstractContextManager[None]:
    return workers(_WORKER, count)


def one_by_one(count: int) -> float:
    """Return jobs per second, each enqueued in a call, and so a commit, of its own."""
    with _ready():
        began = time.perf_counter()
        for number in range(count):
            ours_app.noop.enqueue(number)
        return count / (time.perf_counter() - began)


def in_bulk(count: int) -> float:
    """Return jobs per second of one `enqueue_many`."""
    with _ready():
        began = time.perf_counter()
        ours_app.noop.enqueue_many({"n": number} for number in range(count))
        return count / (time.perf_counter() - began)


def drain(count: int, processes: int = 1, task: str = "noop") -> float:
    """Return coroutines per second that worker processes run."""
    with _ready():
        ours_app.app.tasks[task].enqueue_many({"n": number} for number in range(count))
        with _workers(processes):
            rate = drained(count)
        done = ours_app.app.call(count_states(ours_app.app.verbs))[State.COMPLETED]
    if done != count:
        sys.exit(f"bench: {done} jobs were completed of {count}: something is wrong")
    return rate


def drain_put_aside(count: int) -> float:
    """Return coroutines per second of a worker that knows them, after another has put all of them aside."""
    with _ready():
        ours_app.noop.enqueue_many({"n": number} for number in range(count))
        with workers([*_WORKER[:-1], "ours_app:without_tasks"]):
            while ours_app.app.call(count_states(ours_app.app.verbs))[State.BLOCKED] < count:
                time.sleep(0.1)
        with _workers():
            return drained(count)


def drain_two(count: int) -> float:
    """Return coroutines per second of two worker processes."""
    return drain(count, 2)


def drain_threads(count: int) -> float:
    """Return plain functions per second of one worker process."""
    return drain(count, task="noop_in_a_thread")


def pickup(count: int) -> list[float]:
    """Return milliseconds from the call of `enqueue` to the start of the handler in an idle worker's process."""
    with _ready(), _workers():
        return picked_up(ours_app.timed.enqueue, count)


def delayed(count: int) -> list[float]:
    """Return milliseconds late."""
    with _ready(), _workers():
        return on_time(lambda due_at, delay: ours_app.timed.options(delay=max(delay, 0)).enqueue(due_at), count)


def idle(seconds: int) -> float:
    """Return the share of one core, in per cent, that a worker without work takes, its supervisor included."""
    with _ready():
        worker = subprocess.Popen(_WORKER, stderr=subprocess.DEVNULL)
        try:
            ours_app.noop.enqueue(1).result(timeout=30)
            time.sleep(1)
            before = cpu_seconds(worker.pid)
            time.sleep(seconds)
            return (cpu_seconds(worker.pid) - before) / seconds * 100
        finally:
            worker.terminate()
            worker.wait(60)
