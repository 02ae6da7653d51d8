"""What a scrape tells: the counters of processes, and the store at a glance.

What takes long to read, for those who cannot wait: a thread of its own reads it, and not too often.

none ─(somebody asks)─► read aside ─► known ─(asked later)─► read aside; who asks meanwhile has what was known …

To count millions of jobs, or to read the figures of four weeks, is no reason to say that the store does not answer,
and who asks every second is no reason to do it every second.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from standfast.model.display import standfast_version
from standfast.model.records import Kind
from standfast.observe.burn_rates import Standing, read_standings
from standfast.observe.catalogue import published_objectives
from standfast.observe.metrics import families as family
from standfast.observe.metrics.cells import LONGEST, OTHER
from standfast.observe.metrics.families import Sample, written
from standfast.stores.backend import HasStore
from standfast.stores.values import Queue, QueueAges, Worker
from standfast.stores.verb import run_procedure

log = logging.getLogger(__name__)

T = TypeVar("T")

SHARE = 0.01
"""The part of the time that reading takes, about, unless it takes very long."""

LONGEST_PAUSE = 60.0
"""Seconds after which it is read again however long that took: a store that was held up once is fast again."""

PATIENCE = 1.0
"""Seconds that somebody who asks waits for it."""


class BackgroundRead(Generic[T]):
    """What `read` returns, or has returned: at least `every` seconds pass between two reads. One thread may ask."""

    def __init__(
        self,
        read: Callable[[], T],
        *,
        every: float = 0.0,
        patience: float = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._every = every
        self._patience = patience
        self._monotonic = monotonic
        self._next_at: float | None = None
        self._reading: threading.Thread | None = None
        self._latest: T | None = None
        self._error: Exception | None = None

    def latest(self) -> T | None:
        """Return what was read last, None before there is anything. Raises what reading has raised, once."""
        if self._reading is None and (self._next_at is None or self._monotonic() >= self._next_at):
            self._reading = threading.Thread(target=self._go, name="standfast-aside", daemon=True)
            self._reading.start()
        if self._reading is not None:
            self._reading.join(self._patience)
            if not self._reading.is_alive():
                self._reading = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._latest

    def _go(self) -> None:
        began_at = self._monotonic()
        self._next_at = began_at + self._every
        try:
            self._latest = self._read()
        except Exception as error:  # noqa: BLE001 - it is raised where somebody asks
            self._latest, self._error = None, error  # what was known may be long over
        else:
            ended_at = self._monotonic()
            pause = min((ended_at - began_at) / SHARE, LONGEST_PAUSE)
            self._next_at = max(self._next_at, ended_at + pause)


EVERY = 60.0
"""Seconds between two reads."""

TOLD = 100
"""So many objectives are told, by name."""


class Goals:
    """The objectives in a store, as one process tells them. One thread at a time may ask.

    They change slowly and take many reads: they are read once a minute at most.
    """

    def __init__(
        self, asked: HasStore, monotonic: Callable[[], float] = time.monotonic, patience: float = PATIENCE
    ) -> None:
        self._asked = asked
        self._read_aside = BackgroundRead(self._read, every=EVERY, patience=patience, monotonic=monotonic)

    def samples(self) -> tuple[Sample, ...]:
        """Return how they stand, or stood about a minute ago; nothing while they are being read the first time."""
        try:
            return self._read_aside.latest() or ()
        except Exception as error:  # noqa: BLE001 - the rest is told without them
            log.warning("metrics: how objectives stand is not known: %s", error)
            return ()

    def _read(self) -> tuple[Sample, ...]:
        verbs, call = self._asked.verbs, self._asked.call
        objectives = run_procedure(call, published_objectives(verbs))[:TOLD]
        standings = run_procedure(call, read_standings(verbs, objectives))
        return tuple(goal_samples(standings))


def goal_samples(standings: Iterable[Standing]) -> Iterator[Sample]:
    """Yield what is told of each objective. All are gauges: what was good goes down again as days pass."""
    for each in standings:
        about = (each.objective.name,)
        yield Sample(family.GOAL_TARGET.name, about, each.objective.target)
        yield Sample(family.GOAL_GOOD.name, about, each.good)
        yield Sample(family.GOAL_BAD.name, about, each.bad)
        yield Sample(family.GOAL_BUDGET.name, about, each.budget_left)
        for window, burn in each.burns.items():
            yield Sample(family.GOAL_BURN.name, (*about, window), burn)


QUEUES = 200
"""So many queues are told by name, those with most jobs; the others as one."""

WORKERS = 200
"""Of so many workers it is told how they are, the newest; all are counted."""

SCHEDULES = 100
"""So many schedules that are due are looked at."""

OVERDUE = timedelta(seconds=10)


def _first(queues: Iterable[str]) -> frozenset[str]:
    """Return the queues that are told by name."""
    return frozenset(islice(queues, QUEUES))


def _label(queue: str, told: frozenset[str]) -> str:
    return queue[:LONGEST] if queue in told else OTHER


def _jobs(queues: Iterable[Queue], told: frozenset[str]) -> Iterator[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    paused: set[str] = set()
    for queue in queues:
        label = _label(queue.name, told)
        counts.update({(label, state.value): number for state, number in queue.states.items()})
        if queue.paused_at is not None:
            paused.add(label)
    yield from (Sample(family.JOBS.name, labels, number) for labels, number in counts.items())
    yield from (Sample(family.PAUSED.name, (label,), 1) for label in sorted(paused))


def _ages(ages: QueueAges, told: frozenset[str]) -> Iterator[Sample]:
    oldest: dict[str, float] = {}
    for queue in ages.queues:
        label = _label(queue.name, told)
        oldest[label] = max(oldest.get(label, 0.0), (ages.now - queue.oldest_due_at).total_seconds())
    for unknown in ages.unknown:
        label = _label(unknown.queue, told)
        oldest[label] = max(oldest.get(label, 0.0), (ages.now - unknown.oldest_due_at).total_seconds())
    yield from (Sample(family.OLDEST_DUE.name, (label,), age) for label, age in oldest.items())


def _workers(rows: tuple[Worker, ...]) -> Iterator[Sample]:
    workers = [worker for worker in rows if not worker.info.is_courier]
    live = sum(worker.is_live for worker in workers)
    yield Sample(family.WORKERS.name, ("live",), live)
    yield Sample(family.WORKERS.name, ("silent",), len(workers) - live)
    for worker in workers[-WORKERS:]:
        label, vitals = (worker.info.id,), worker.vitals
        yield Sample(family.WORKER_BEAT.name, label, max(worker.beat_age.total_seconds(), 0.0))
        yield Sample(family.WORKER_RUNNING.name, label, worker.running if vitals is None else vitals.running)
        yield Sample(family.WORKER_SLOTS.name, label, worker.info.concurrency if vitals is None else vitals.slots)
        if vitals is not None and vitals.lag is not None:
            yield Sample(family.WORKER_LAG.name, label, vitals.lag)
        if vitals is not None and vitals.memory is not None:
            yield Sample(family.WORKER_MEMORY.name, label, vitals.memory)


class StoreSamples(msgspec.Struct, frozen=True):
    """What a look at the store brought; `problem` if it did not answer."""

    samples: tuple[Sample, ...] = ()
    problem: str | None = None


class StoreLook:
    """Asks a store, when it is called, for all that is told about the fleet. One thread at a time may ask."""

    def __init__(self, asked: HasStore) -> None:
        self._asked = asked
        self._queues = BackgroundRead(lambda: asked.call(asked.verbs.queues()))
        self._goals = Goals(asked)

    def __call__(self) -> StoreSamples:
        """Return how it stands now."""
        began_at = time.monotonic()
        samples = [*self._fleet(), *self._goals.samples()]
        samples.append(Sample(family.LOOK_SECONDS.name, (), round(time.monotonic() - began_at, 6)))
        return StoreSamples(tuple(samples))

    def _fleet(self) -> Iterator[Sample]:
        """Ask the store. Where jobs are many, they are not counted each time."""
        asked = self._asked
        queues, ages = self._queues.latest(), asked.call(asked.verbs.queue_ages())
        if queues is None:
            told = _first(
                dict.fromkeys([*(each.name for each in ages.queues), *(each.queue for each in ages.unknown)])
            )
        else:
            told = _first(
                each.name for each in sorted(queues, key=lambda queue: (-sum(queue.states.values()), queue.name))
            )
            yield from _jobs(queues, told)
        yield from _ages(ages, told)
        yield from _workers(asked.call(asked.verbs.workers()))
        due = asked.call(asked.verbs.due_records(Kind.SCHEDULE, timedelta(), SCHEDULES))
        late = sum(record.due_at is not None and record.due_at < due.now - OVERDUE for record in due.records)
        yield Sample(family.SCHEDULES_OVERDUE.name, (), late)


def page(seen: StoreSamples, counted: Iterable[Sample] = ()) -> str:
    """Return the text for Prometheus: what was counted here, if anything, and how the store stands."""
    up = Sample(family.STORE_UP.name, (), 0 if seen.problem else 1)
    build = Sample(family.BUILD.name, (standfast_version(),), 1)
    return written([*counted, build, up, *seen.samples])
