"""The two strategies. Each plays until it is told to stop, and ends what it has locked.

*naive*: look for ready jobs every ten seconds, and again at once while there are any; lock each, run it, go on.

*lookahead*: look every ten seconds for jobs of the next ten. In the order of their times, wait until about a second
before each (at random, so that instances do not all come at once), see whether it is still free, lock it, wait for
its time, and hand it to one of ten threads.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from holdfast.bench.game.ledger import Ledger
from holdfast.bench.game.reference.table import CREATED, Table
from holdfast.bench.game.rules import PREPARE, WORK

PERIOD = PREPARE
AHEAD = PREPARE
THREADS = 10
LEAD = (0.3, 1.7)
"""Seconds before its time that a job is locked, at random."""

FENCE = 1
"""A lock of the table is never given back, so there is no second one."""

OpenTable = Callable[[], Table]
Play = Callable[[OpenTable, Ledger, threading.Event], None]


def play_naive(open_table: OpenTable, ledger: Ledger, stop: threading.Event) -> None:
    """Poll, lock and run, one job after the other."""
    table = open_table()
    while not stop.is_set():
        ready = table.list_ready()
        for job in ready:
            if stop.is_set():
                return
            if table.lock(job.id):
                _run(job.id, table, ledger)
        if not ready:
            stop.wait(PERIOD)


def play_lookahead(open_table: OpenTable, ledger: Ledger, stop: threading.Event) -> None:
    """Fetch ahead, lock early, start on time."""
    locked: queue.Queue[int | None] = queue.Queue()
    threads = [threading.Thread(target=_run_locked, args=(locked, open_table, ledger)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        _fetch(open_table(), locked, stop)
    finally:
        for _ in threads:
            locked.put(None)
        for thread in threads:
            thread.join()


def _fetch(table: Table, locked: "queue.Queue[int | None]", stop: threading.Event) -> None:
    random = Random()  # noqa: S311 - instances must not all come at once
    while not stop.is_set():
        began = time.monotonic()
        for job in table.list_ready(AHEAD):
            if stop.wait(max(0.0, job.run_at - random.uniform(*LEAD) - time.time())):
                return
            if table.look(job.id) != CREATED or not table.lock(job.id):
                continue
            _sleep_until(job.run_at)
            locked.put(job.id)
        stop.wait(max(0.0, began + PERIOD - time.monotonic()))


def _run_locked(locked: "queue.Queue[int | None]", open_table: OpenTable, ledger: Ledger) -> None:
    table = open_table()
    while (job := locked.get()) is not None:
        _run(job, table, ledger)


def _run(job: int, table: Table, ledger: Ledger) -> None:
    ledger.start(job, FENCE)
    time.sleep(WORK)
    ledger.end(job, FENCE)
    table.complete(job)


def _sleep_until(at: float) -> None:
    while (left := at - time.time()) > 0:
        time.sleep(left)


STRATEGIES: Mapping[str, Play] = MappingProxyType({"naive": play_naive, "lookahead": play_lookahead})
