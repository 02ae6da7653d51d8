"""Queues: what is in them, and who serves them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from standfast.core.states import State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.figures import queue_points
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.shared_looks import all_ages, all_queues, all_workers, catalogue, closed_hours
from standfast.dashboard.reading.tasks import bound_words
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.figures import PointSeen
from standfast.dashboard.shapes.queues import QueueRow, QueueSeen, QueuesSeen
from standfast.dashboard.shapes.words import Named, NothingAsked
from standfast.phrases import Phrase
from standfast.schedule.closing import About
from standfast.schedule.words import describe_window
from standfast.store.protocol import JobFilter, Queue, QueueAges, Worker
from standfast.watch.closed import Windows, queue_closed

_MOST_RUNNING = 50


@dataclass(frozen=True, slots=True)
class _Look:
    """All that rows of queues are made of."""

    ages: QueueAges
    workers: tuple[Worker, ...]
    windows: Windows
    limits: Mapping[str, tuple[Phrase, ...]]
    points: Mapping[str, tuple[PointSeen, ...]]

    @property
    def now(self) -> datetime:
        return self.ages.now

    def row(self, queue: Queue) -> QueueRow:
        serving = self.serving(queue.name)
        age = next((each for each in self.ages.queues if each.name == queue.name), None)
        closed = queue_closed(self.windows, queue.name, self.now)
        return QueueRow(
            name=queue.name,
            paused_at=queue.paused_at,
            closed_until=None if closed is None else closed.closing.end,
            counts={state.value: queue.states.get(state, 0) for state in State},
            oldest_age=None if age is None else max(0.0, (self.now - age.oldest_due_at).total_seconds()),
            workers=len(serving),
            places=sum(worker.info.concurrency for worker in serving),
            busy=sum(queue.states.get(state, 0) for state in (State.HELD, State.RUNNING)),
            limits=self.limits.get(queue.name, ()),
            points=self.points.get(queue.name, ()),
        )

    def serving(self, queue: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_live and worker.serves(queue)]


@reads("queues.list", "/queues")
async def list_queues(desk: Desk, asked: NothingAsked) -> QueuesSeen:  # noqa: ARG001 - there is nothing to ask
    """List all queues that have jobs, are paused, or that a worker or an app names, by name."""
    queues, look = await _look(desk)
    return QueuesSeen(now=look.now, queues=tuple(map(look.row, queues)))


@reads("queues.show", "/queues/{name}")
async def show_queue(desk: Desk, asked: Named) -> QueueSeen:
    """Show a queue, the workers that serve it, and the jobs of it that run."""
    queues, look = await _look(desk)
    queue = next((each for each in queues if each.name == asked.name), None)
    if queue is None:
        raise NotThereError(Phrase("refusal.no_queue", queue=asked.name))
    which = JobFilter(states=(State.RUNNING,), queue=queue.name, limit=_MOST_RUNNING)
    running = await desk.ask(desk.verbs.list_jobs(which))
    windows = [hours for hours in look.windows if (hours.about, hours.name) == (About.QUEUE, queue.name)]
    return QueueSeen(
        now=look.now,
        row=look.row(queue),
        workers=tuple(worker.info.id for worker in look.serving(queue.name)),
        running=tuple(map(job_row, running)),
        windows=tuple(describe_window(window) for hours in windows for window in hours.windows),
    )


async def _look(desk: Desk) -> tuple[list[Queue], _Look]:
    queues = await all_queues(desk)
    workers = await all_workers(desk)
    ages, _ = await all_ages(desk)
    limits = {queue.name: bound_words(queue.limit) for queue in (await catalogue(desk)).queues}
    every_queue = sorted(_with_named(queues, workers, limits), key=lambda queue: queue.name)
    return every_queue, _Look(ages, workers, await closed_hours(desk), limits, await queue_points(desk))


def _with_named(queues: Iterable[Queue], workers: Iterable[Worker], named: Iterable[str]) -> Iterable[Queue]:
    """Return queues, with those that are empty: workers serve them by name, or an app declares them."""
    found = {queue.name: queue for queue in queues}
    served = (name for worker in workers for name in worker.info.queues or ())
    for name in (*served, *named):
        found.setdefault(name, Queue(name, None, {}))
    return found.values()
