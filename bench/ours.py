"""Holdfast as it ships: the public API, and `holdfast worker` in processes of its own, with its defaults."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import ours_app
from holdfast import Holdfast
from holdfast.task import Task
from processes import HERE, cpu_seconds, run_quietly

WARM_UP = 5


def one_by_one(folder: Path, count: int) -> float:
    """Return jobs per second, each enqueued in a call, and so a commit, of its own."""
    with _app(folder) as app:
        task = _task(app, "noop")
        began = time.perf_counter()
        for number in range(count):
            task.enqueue(number)
        return count / (time.perf_counter() - began)


def in_bulk(folder: Path, count: int) -> float:
    """Return jobs per second of one `enqueue_many`."""
    with _app(folder) as app:
        task = _task(app, "noop")
        began = time.perf_counter()
        task.enqueue_many({"n": number} for number in range(count))
        return count / (time.perf_counter() - began)


def drain(folder: Path, count: int) -> float:
    """Return coroutines per second that one worker process runs, from the first start to the last commit."""
    return _drain(folder, count, "noop")


def drain_threads(folder: Path, count: int) -> float:
    """Return plain functions per second that one worker process runs, from the first start to the last commit."""
    return _drain(folder, count, "noop_in_a_thread")


def pickup(folder: Path, count: int) -> list[float]:
    """Return milliseconds from the call of `enqueue` to the start of the handler in an idle worker's process."""
    with _app(folder) as app, _worker(folder):
        task = _task(app, "when_started")
        for _ in range(WARM_UP):
            task.enqueue().result(timeout=30)
        waits = []
        for _ in range(count):
            called_at = time.time_ns()
            waits.append((task.enqueue().result(timeout=30) - called_at) / 1e6)
            time.sleep(0.01)  # let the worker fall idle
        return waits


def idle(folder: Path, seconds: float) -> float:
    """Return the share of one core, in per cent, that a worker without work takes, its supervisor included."""
    with _app(folder) as app, _worker(folder) as worker:
        _task(app, "noop").enqueue(1).result(timeout=30)
        time.sleep(1)
        before = cpu_seconds(worker.pid)
        time.sleep(seconds)
        return (cpu_seconds(worker.pid) - before) / seconds * 100


def _drain(folder: Path, count: int, task: str) -> float:
    with _app(folder) as app:
        _task(app, task).enqueue_many({"n": number} for number in range(count))
    run_quietly([*_WORKER, "--drain"], _environment(folder))
    with closing(sqlite3.connect(folder / "ours.db")) as database:
        [(done, began, ended)] = database.execute(
            "SELECT count(*), min(started_at), max(finished_at) FROM holdfast_job WHERE state = 'completed'"
        )
    if done != count:
        sys.exit(f"bench: {done} jobs were completed of {count}: something is wrong")
    return count / (ended - began) * 1e6


_WORKER = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "worker", "ours_app:app"]


@contextmanager
def _worker(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    worker = subprocess.Popen(_WORKER, cwd=HERE, env=_environment(folder), stderr=subprocess.DEVNULL)
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait(60)


@contextmanager
def _app(folder: Path) -> Iterator[Holdfast]:
    """Give an app with the tasks of `ours_app` on a store of its own."""
    with Holdfast(_url(folder)) as app:
        for task in ours_app.app.tasks.values():
            app.task(task.fn)
        app.prepare()  # as the others have made their tables before they are measured
        yield app


def _task(app: Holdfast, name: str) -> Task[..., Any]:
    return app.tasks[name]


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ours.db'}"


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOLDFAST_URL": _url(folder)}
