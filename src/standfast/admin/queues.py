"""Queues."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import asdict

from standfast.admin.executor import OperationContext, all_ages, all_queues, all_workers, catalogue, closed_hours
from standfast.admin.fields import AnswerStruct, Named, NothingAsked, QueueNamed
from standfast.admin.figures import PointSeen, queue_points
from standfast.admin.job_search import JobRow, job_row
from standfast.admin.operation import NotThereError, Role, acts, reads
from standfast.admin.tasks import bound_words
from standfast.model.display import one_line
from standfast.model.phrases import Phrase
from standfast.model.states import State
from standfast.model.validation import queue_problems, refuse_any
from standfast.observe.obstacles import Windows, queue_closed
from standfast.schedules.closed_hours import About, closing_from
from standfast.schedules.description import describe_window
from standfast.schedules.windows import Window
from standfast.stores.values import JobFilter, Queue, QueueAges, Worker


class QueueRow(AnswerStruct, frozen=True, kw_only=True):
    """A queue. `states` has every state with its count; `oldest_age` is that of the job longest due, in seconds.

    `closed` says in words until when its windows close it, and why.
    `places` is how many of its jobs the `workers` that serve it can run at a time, `busy` how many they do run.
    """

    name: str
    paused_at: datetime | None
    closed_until: datetime | None
    closed: Phrase | None = None
    states: dict[str, int]
    oldest_age: float | None
    workers: int
    places: int
    busy: int
    limits: tuple[Phrase, ...] = ()
    points: tuple[PointSeen, ...] = ()


class QueuesSeen(AnswerStruct, frozen=True, kw_only=True):
    """All queues, by name."""

    now: datetime
    queues: tuple[QueueRow, ...]


class QueueSeen(QueueRow, frozen=True, kw_only=True):
    """A queue, the ids of the workers that serve it, the jobs in it that run, and when it is closed next."""

    now: datetime
    served_by: tuple[str, ...]
    running: tuple[JobRow, ...]
    windows: tuple[Phrase, ...]
    closes_at: datetime | None = None
    opens_at: datetime | None = None


class QueueDone(AnswerStruct, frozen=True, kw_only=True):
    """A queue, since when it is paused or null, how many jobs it has, and how many workers serve it."""

    name: str
    paused_at: datetime | None
    jobs: int
    workers: int


# Queues: what is in them, and who serves them.

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
            closed=None if closed is None else closed.until(self.now),
            states={state.value: queue.states.get(state, 0) for state in State},
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
async def list_queues(desk: OperationContext, asked: NothingAsked) -> QueuesSeen:  # noqa: ARG001 - there is nothing to ask
    """List all queues that have jobs, are paused, or that a worker or an app names, by name."""
    queues, look = await _look(desk)
    return QueuesSeen(now=look.now, queues=tuple(map(look.row, queues)))


@reads("queues.show", "/queues/{name}")
async def show_queue(desk: OperationContext, asked: Named) -> QueueSeen:
    """Show a queue, the workers that serve it, and the jobs of it that run."""
    queues, look = await _look(desk)
    queue = next((each for each in queues if each.name == asked.name), None)
    if queue is None:
        raise NotThereError(Phrase("refusal.no_queue", queue=asked.name))
    which = JobFilter(states=(State.RUNNING,), queue=queue.name, limit=_MOST_RUNNING)
    running = (await desk.ask(desk.verbs.list_jobs(which))).jobs
    hours = [each for each in look.windows if (each.about, each.name) == (About.QUEUE, queue.name)]
    windows = [window for each in hours for window in each.windows]
    closing = closing_from(windows, look.now)
    return QueueSeen(
        **asdict(look.row(queue)),
        now=look.now,
        served_by=tuple(worker.info.id for worker in look.serving(queue.name)),
        running=tuple(map(job_row, running)),
        windows=tuple(map(_window, windows)),
        closes_at=None if closing is None else closing.begin,
        opens_at=None if closing is None else closing.end,
    )


def _window(window: Window) -> Phrase:
    words = describe_window(window)
    return Phrase("closed.because", until=words, reason=one_line(window.reason)) if window.reason else words


async def _look(desk: OperationContext) -> tuple[list[Queue], _Look]:
    queues = await all_queues(desk)
    workers = await all_workers(desk)
    ages, _ = await all_ages(desk)
    limits = {queue.name: bound_words(queue.limit) for queue in (await catalogue(desk)).queues}
    windows = await closed_hours(desk)
    named = [*limits, *(hours.name for hours in windows if hours.about is About.QUEUE)]
    every_queue = sorted(_with_named(queues, workers, named), key=lambda queue: queue.name)
    return every_queue, _Look(ages, workers, windows, limits, await queue_points(desk))


def _with_named(queues: Iterable[Queue], workers: Iterable[Worker], named: Iterable[str]) -> Iterable[Queue]:
    """Return queues, with those that are empty: workers serve them by name, or an app declares them."""
    found = {queue.name: queue for queue in queues}
    served = (name for worker in workers for name in worker.info.queues or ())
    for name in (*served, *named):
        found.setdefault(name, Queue(name, None, {}))
    return found.values()


# Queues that are paused and go on.


@acts("queues.pause", "/queues/{name}/pause", Role.OPERATOR)
async def pause_queue(desk: OperationContext, asked: QueueNamed) -> QueueDone:
    """Let nothing of a queue start until it goes on; what runs, runs on."""
    refuse_any(queue_problems(asked.name))
    desk.note(before=_told((await _queue(desk, asked.name)).paused_at))
    await desk.ask(desk.verbs.pause(asked.name))
    return await _done(desk, asked.name)


@acts("queues.resume", "/queues/{name}/resume", Role.OPERATOR)
async def resume_queue(desk: OperationContext, asked: QueueNamed) -> QueueDone:
    """Let a queue go on."""
    refuse_any(queue_problems(asked.name))
    desk.note(before=_told((await _queue(desk, asked.name)).paused_at))
    await desk.ask(desk.verbs.resume(asked.name))
    return await _done(desk, asked.name)


async def _done(desk: OperationContext, name: str) -> QueueDone:
    queue = await _queue(desk, name)
    desk.note(after=_told(queue.paused_at))
    workers = sum(worker.is_live and worker.serves(name) for worker in await desk.ask(desk.verbs.workers()))
    return QueueDone(name=name, paused_at=queue.paused_at, jobs=sum(queue.states.values()), workers=workers)


async def _queue(desk: OperationContext, name: str) -> Queue:
    queues = await desk.ask(desk.verbs.queues())
    return next((queue for queue in queues if queue.name == name), Queue(name, None, {}))


def _told(paused_at: datetime | None) -> Phrase:
    if paused_at is None:
        return Phrase("noted.open")
    return Phrase("noted.paused", since=paused_at.isoformat(timespec="seconds"))
