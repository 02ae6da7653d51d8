"""No wake-up is lost: jobs that come at random moments start at once, though nobody looks for them by the clock.

The safety poll is off, so a worker that is not woken sleeps on. Jobs come in rounds, and the next round begins when
every job of the last one has started: no later ring can make up for one that was lost. In quick rounds a few jobs
come within milliseconds of the moment at which workers fall asleep again; in slow ones, on PostgreSQL, most are
enqueued in transactions of the user's own, which commit up to half a second later. Half of the jobs come while
there is but one worker, for whom nobody can stand in.

Short by default; `make prove NAME=lost_wakeups` runs it at full size, and asks for its times too.
"""

import random
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import quantiles

import psycopg
import pytest
from fleet import PROVE, Fleet, sizes

from connections import for_libpq

JOBS = sizes(short=288, full=20_016)
OTHER_WORKERS = 2
OFF = 3600.0
"""Seconds between two safety polls."""

LATEST = sizes(short=8.0, full=2.0)
"""Seconds after its commit within which every job starts: fewer than the ten after which a listener looks again on
Redis, rung or not."""

P99 = 0.05

NAP = 0.02
HOLD = 0.5
HELD, BESIDE = 16, 8
"""How many jobs of a slow round come in transactions that stay open for up to HOLD, and how many others come."""
QUICK_ROUNDS = 12
QUICK_SIZES = (1, 1, 2, 4)

pytestmark = pytest.mark.timeout(3000 if PROVE else 120)


@dataclass(frozen=True, slots=True)
class Ring:
    """An enqueue after a pause, by itself, or in a transaction that is committed so much later."""

    pause: float
    held: float | None = None


Round = Sequence[Ring]


def quick_round(size: int) -> Round:
    return [Ring(random.uniform(0, NAP)) for _ in range(size)]


def slow_round() -> Round:
    held = [Ring(random.uniform(0, NAP), random.uniform(0, HOLD)) for _ in range(HELD)]
    return [*held, *(Ring(random.uniform(0, HOLD)) for _ in range(BESIDE))]


def rounds(jobs: int, *, with_transactions: bool) -> Iterator[Round]:
    """Yield rounds of so many jobs; if some are in transactions, then a third of them."""
    while jobs > 0:
        cycle = [quick_round(size) for size in QUICK_SIZES * (QUICK_ROUNDS // len(QUICK_SIZES))]
        if with_transactions:
            cycle.append(slow_round())
        random.shuffle(cycle)
        jobs -= sum(map(len, cycle))
        yield from cycle


class Bystander:
    """Enqueues jobs, and hears when each of them starts."""

    def __init__(self, fleet: Fleet, opened: ExitStack) -> None:
        self._task = fleet.app.tasks["tell_start"]
        self._ear = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._ear.bind(("127.0.0.1", 0))
        self._threads = opened.enter_context(ThreadPoolExecutor(HELD + BESIDE))
        self._connections: list[psycopg.Connection] = []
        if fleet.url.startswith("postgresql:"):
            theirs = for_libpq(fleet.url)
            self._connections = [opened.enter_context(psycopg.connect(**theirs)) for _ in range(HELD)]

    @property
    def has_transactions(self) -> bool:
        return bool(self._connections)

    def measure(self, rings: Round) -> list[float]:
        """Enqueue the jobs of a round; return how long each waited from its commit, or this call, to its start."""
        free = iter(self._connections)
        enqueues = [self._threads.submit(self._enqueue, ring, next(free) if ring.held else None) for ring in rings]
        committed_at = dict(enqueue.result() for enqueue in enqueues)
        started_at: dict[str, float] = {}
        while started_at.keys() < committed_at.keys():
            self._ear.settimeout(LATEST)
            try:
                job_id, at = self._ear.recv(100).decode().split()
            except TimeoutError:
                lost = committed_at.keys() - started_at.keys()
                raise AssertionError(
                    f"nobody starts {len(lost)} of {len(rings)} jobs of a round: {rings}"
                ) from None
            started_at[job_id] = float(at)
        assert started_at.keys() == committed_at.keys()
        return [started_at[job_id] - at for job_id, at in committed_at.items()]

    def _enqueue(self, ring: Ring, connection: psycopg.Connection | None) -> tuple[str, float]:
        time.sleep(ring.pause)
        at = time.monotonic()
        handle = self._task.options(tx=connection).enqueue(port=self._ear.getsockname()[1])
        if connection is not None:
            time.sleep(ring.held or 0)
            at = time.monotonic()
            connection.commit()
        return handle.id, at


def measure(fleet: Fleet, bystander: Bystander, new_workers: int) -> list[float]:
    """Return how long each of half of the jobs waited, with so many workers more."""
    fleet.start_workers(new_workers, safety_poll=OFF)
    bystander.measure([Ring(0)])  # their first claims are no measure
    planned = rounds(JOBS // 2, with_transactions=bystander.has_transactions)
    return [wait for each in planned for wait in bystander.measure(each)]


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_lost_wakeups(store, request, fleet_on, measured):
    """Whenever a job comes, idle workers hear of it, and one of them starts it."""
    fleet = fleet_on(request.getfixturevalue(f"{store}_url"))
    with ExitStack() as opened:
        bystander = Bystander(fleet, opened)
        alone = measure(fleet, bystander, new_workers=1)
        together = measure(fleet, bystander, new_workers=OTHER_WORKERS)
    waits = sorted([*alone, *together])
    assert len(waits) >= JOBS

    p50, p99 = (quantiles(waits, n=100)[percent - 1] for percent in (50, 99))
    measured(
        f"{len(waits)} jobs, from commit to start: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms,"
        f" longest {waits[-1] * 1000:.0f} ms"
    )
    assert waits[-1] <= LATEST
    assert p99 <= P99 or not PROVE
