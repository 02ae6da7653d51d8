"""How the store stands, as samples: the same wherever it is asked for. A bounded number, however much is in it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice

from standfast.core.record import Kind
from standfast.metrics import families as family
from standfast.metrics.aside import Aside
from standfast.metrics.families import Sample
from standfast.metrics.places import LONGEST, OTHER
from standfast.store.asked import Asked
from standfast.store.looking import DueRecords, Queue, QueueAges, Worker

QUEUES = 200
"""So many queues are told by name, those with most jobs; the others as one."""

WORKERS = 200
"""Of so many workers it is told how they are, the newest; all are counted."""

SCHEDULES = 100
"""So many schedules that are due are looked at."""

OVERDUE = timedelta(seconds=10)


class Fleet:
    """A store, and all that runs on it, as one process tells them. One thread at a time may ask."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._queues = Aside(lambda: asked.call(asked.verbs.queues()))

    def samples(self) -> Iterator[Sample]:
        """Ask the store and yield how it stands. Where jobs are many, they are not counted each time."""
        asked = self._asked
        queues, ages = self._queues.latest(), asked.call(asked.verbs.queue_ages())
        if queues is None:
            told = _first(
                dict.fromkeys([*(each.name for each in ages.queues), *(each.queue for each in ages.unknown)])
            )
        else:
            told = _first(each.name for each in sorted(queues, key=_by_size))
            yield from _jobs(queues, told)
        yield from _ages(ages, told)
        yield from _workers(asked.call(asked.verbs.workers()))
        yield from _overdue(asked.call(asked.verbs.due_records(Kind.SCHEDULE, timedelta(), SCHEDULES)))


def _by_size(queue: Queue) -> tuple[int, str]:
    return -sum(queue.states.values()), queue.name


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


def _overdue(due: DueRecords) -> Iterator[Sample]:
    late = sum(record.due_at is not None and record.due_at < due.now - OVERDUE for record in due.records)
    yield Sample(family.SCHEDULES_OVERDUE.name, (), late)
