"""Huey on SQLite, the fastest peer here: its own consumer, one thread (more are slower), polling every 10 ms."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import HERE, run_python

WARM_UP = 5


def one_by_one(folder: Path, count: int) -> float:
    """Return jobs per second, each enqueued by a call of its own; huey has no other way."""
    return float(run_python(_ENQUEUE.format(count=count), _environment(folder, count)))


def drain(folder: Path, count: int) -> float:
    """Return jobs per second from the first run to the last one; what huey writes after that is not counted."""
    one_by_one(folder, count)
    report = folder / "report"
    with _consumer(folder, count):
        give_up_at = time.monotonic() + 120
        while not (report.exists() and report.read_text()):
            if time.monotonic() > give_up_at:
                sys.exit("bench: huey did not finish within two minutes")
            time.sleep(0.05)
        return float(report.read_text())


def pickup(folder: Path, count: int) -> list[float]:
    """Return milliseconds from the call to the start of the handler in the consumer's process."""
    with _consumer(folder, 0):
        said = run_python(_PICKUP.format(warm_up=WARM_UP, count=count), _environment(folder, 0))
    return [float(word) for word in said.split()]


_ENQUEUE = """
import time, huey_app
began = time.perf_counter()
for number in range({count}):
    huey_app.noop(number)
print({count} / (time.perf_counter() - began))
"""
_PICKUP = """
import time, huey_app
for number in range({warm_up} + {count}):
    called_at = time.time_ns()
    started_at = huey_app.when_started()(blocking=True, timeout=30, backoff=1, max_delay=0.01)
    if number >= {warm_up}:
        print((started_at - called_at) / 1e6)
    time.sleep(0.01)
"""


@contextmanager
def _consumer(folder: Path, count: int) -> Iterator[None]:
    command = [Path(sys.executable).with_name("huey_consumer"), "huey_app.huey"]
    options = ["--workers", "1", "--worker-type", "thread", "--delay", "0.01", "--max-delay", "0.01"]
    consumer = subprocess.Popen(
        [*command, *options], cwd=HERE, env=_environment(folder, count), stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        consumer.terminate()
        consumer.wait(60)


def _environment(folder: Path, count: int) -> dict[str, str]:
    ours = {"HUEY_FILE": folder / "huey.db", "HUEY_COUNT": count, "HUEY_REPORT": folder / "report"}
    return {**os.environ, "PYTHONPATH": str(HERE), **{name: str(value) for name, value in ours.items()}}
