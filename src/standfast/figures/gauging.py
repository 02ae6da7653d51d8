"""Looks at how things stand: how many jobs are ready and since when, who works, how much runs."""

from collections.abc import Iterable, Sequence

from standfast.core.states import State
from standfast.errors import StandfastError
from standfast.figures.pages import Gauges, QueueGauge
from standfast.store.errand import Verbs
from standfast.store.protocol import Queue, QueueAges, Store, Worker

QUEUES = 100
"""So many queues a sample tells of: those with the most jobs."""


def sample(verbs: Store) -> Verbs[Gauges | None]:
    """Return how things stand; None where the store does not say."""
    try:
        ages: QueueAges = yield verbs.queue_ages()
        queues: Sequence[Queue] = yield verbs.queues()
        workers: Sequence[Worker] = yield verbs.workers()
    except StandfastError:
        return None
    oldest = {age.name: (ages.now - age.oldest_due_at).total_seconds() for age in ages.queues}
    waiting = ((queue.name, queue.states.get(State.READY, 0)) for queue in queues)
    return Gauges(
        workers=sum(worker.is_live for worker in workers),
        running=sum(worker.running for worker in workers),
        queues=_fullest(
            QueueGauge(name, ready, max(oldest.get(name, 0.0), 0.0)) for name, ready in waiting if ready
        ),
    )


def is_quiet(gauges: Gauges) -> bool:
    """Tell whether nothing ran and nothing waited."""
    return not gauges.running and not gauges.queues


def worse(one: Gauges | None, other: Gauges | None) -> Gauges | None:
    """Return the worst of two samples."""
    if one is None or other is None:
        return one or other
    queues = {gauge.queue: gauge for gauge in one.queues}
    for gauge in other.queues:
        known = queues.get(gauge.queue, gauge)
        queues[gauge.queue] = QueueGauge(
            gauge.queue, max(known.ready, gauge.ready), max(known.oldest, gauge.oldest)
        )
    return Gauges(min(one.workers, other.workers), max(one.running, other.running), _fullest(queues.values()))


def _fullest(gauges: Iterable[QueueGauge]) -> tuple[QueueGauge, ...]:
    """Return those with the most jobs, by name."""
    fullest = sorted(gauges, key=lambda gauge: (-gauge.ready, gauge.queue))[:QUEUES]
    return tuple(sorted(fullest, key=lambda gauge: gauge.queue))
