"""One process of a crowd: its threads enqueue with the same keys at the same moments, and it tells what each got.

Run as `python crowd.py` with an `Order` as JSON in the first line of its stdin; it begins with the second.
"""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from fleet_app import make_app

from standfast.errors import KeyTakenError
from standfast.stores.contract import count_states


@dataclass(frozen=True, slots=True)
class Order:
    """What each of so many threads does: enqueue a nap with each of the keys in turn."""

    url: str
    threads: int
    keys: Sequence[str]
    on_conflict: str
    longest: float = 0.0
    """Naps, and the pause before each enqueue, last up to so many seconds."""


@dataclass(frozen=True, slots=True)
class Met:
    """What one enqueue met: the job that it made or was told of, or None where its key was taken."""

    key: str
    job: str | None
    created: bool


def enqueue_together(order: Order, processes: int) -> list[Met]:
    """Let so many processes begin at one moment; return what all of their enqueues met."""
    command = [sys.executable, str(Path(__file__))]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for child in children:
            _say(child, json.dumps(asdict(order)))
        for child in children:
            _heard(child)
        for child in children:
            _say(child, "go")
        met = [Met(**one) for child in children for one in json.loads(_heard(child))]
        assert [child.wait() for child in children] == [0] * processes
        return met
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _say(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def enqueue(order: Order, together: threading.Barrier) -> Iterator[Met]:
    """Do what one thread does."""
    for key in order.keys:
        together.wait()
        time.sleep(random.uniform(0, order.longest))
        task = app.tasks["nap"].options(key=key, on_conflict=order.on_conflict)
        try:
            handle = task.enqueue(seconds=random.uniform(0, order.longest))
        except KeyTakenError:
            yield Met(key, None, created=False)
        else:
            yield Met(key, handle.id, handle.created)


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    order = Order(**json.loads(sys.stdin.readline()))
    app = make_app(order.url)
    app.call(count_states(app.verbs))
    tell("ready")
    sys.stdin.readline()
    together = threading.Barrier(order.threads)
    with ThreadPoolExecutor(order.threads) as threads:
        lists = threads.map(lambda _: list(enqueue(order, together)), range(order.threads))
        tell(json.dumps([asdict(met) for many in lists for met in many]))
    app.close()
