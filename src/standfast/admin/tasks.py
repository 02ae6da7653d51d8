"""The tasks that workers have told of."""

from datetime import datetime

from standfast.admin.executor import OperationContext, catalogue
from standfast.admin.fields import AnswerStruct, Named, NothingAsked
from standfast.admin.operation import reads
from standfast.errors import TaskNotFoundError
from standfast.model.phrases import Phrase, stored_phrase
from standfast.model.suggestions import hint
from standfast.observe.catalogue import Bound, KnownEntry


class ParameterSeen(AnswerStruct, frozen=True, kw_only=True):
    """A parameter of a task. `type` is in words, `default` is JSON."""

    name: str
    required: bool
    secret: bool
    type: str | None = None
    default: str | None = None


class TaskSeen(AnswerStruct, frozen=True, kw_only=True):
    """A task as workers have published it. `current`: it is in the newest release of its app. Spans are seconds."""

    name: str
    app: str
    release: str
    current: bool
    version: int
    queue: str
    priority: int
    about: str | None
    max_attempts: int
    backoff: Phrase | None
    retry_on: tuple[str, ...] | None
    discard_on: tuple[str, ...]
    timeout: float | None
    start_within: float | None
    on_late: str
    keep_result: float | None
    isolation: str
    memory: int | None
    tags: tuple[str, ...]
    schedules: tuple[str, ...]
    limits: tuple[Phrase, ...]
    gates: tuple[str, ...]
    windows: tuple[Phrase, ...]
    parameters: tuple[ParameterSeen, ...]
    seen_at: datetime


class TasksSeen(AnswerStruct, frozen=True, kw_only=True):
    """All known tasks, by name."""

    tasks: tuple[TaskSeen, ...]


# The tasks that workers have told of.

_WINDOWS = ("window", "list.last", "list.next", "weekdays", "month")
"""Of what the words of a window are made, from the outside in."""


@reads("tasks.list", "/tasks")
async def list_tasks(desk: OperationContext, asked: NothingAsked) -> TasksSeen:  # noqa: ARG001 - there is nothing to ask
    """List the tasks that workers have told of, by name."""
    return TasksSeen(tasks=await known_tasks(desk))


@reads("tasks.show", "/tasks/{name}")
async def show_task(desk: OperationContext, asked: Named) -> TaskSeen:
    """Show a task as its app has published it."""
    tasks = {task.name: task for task in await known_tasks(desk)}
    if asked.name not in tasks:
        known = f": {hint(asked.name, tasks)}" if tasks else ""
        raise TaskNotFoundError(f"no worker has published a task '{asked.name}'{known}")
    return tasks[asked.name]


async def known_tasks(desk: OperationContext) -> tuple[TaskSeen, ...]:
    """Return the tasks that workers have told of, by name."""
    return tuple(map(_task, (await catalogue(desk)).tasks))


async def find_task(desk: OperationContext, name: str) -> TaskSeen | None:
    """Return a task, if workers have told of it."""
    return next((task for task in await known_tasks(desk) if task.name == name), None)


def secrets_of(task: TaskSeen | None) -> frozenset[str]:
    """Return which parameters of a task are secret, as far as anybody told."""
    return frozenset() if task is None else frozenset(each.name for each in task.parameters if each.secret)


def bound_words(bound: Bound | None) -> tuple[Phrase, ...]:
    """Return how many jobs run at a time in one process, in words."""
    if bound is None:
        return ()
    most = () if bound.most is None else (Phrase("limit.most", most=bound.most),)
    return (*most, *(stored_phrase(peak, "limit", *_WINDOWS) for peak in bound.peaks))


def _task(known: KnownEntry) -> TaskSeen:
    task = known.task
    return TaskSeen(
        name=task.name,
        app=known.app,
        release=known.release,
        current=known.current,
        version=task.version,
        queue=task.queue,
        priority=task.priority,
        about=task.doc or None,
        max_attempts=task.max_attempts,
        backoff=stored_phrase(task.backoff, "backoff") if task.backoff else None,
        retry_on=task.retry_on,
        discard_on=task.discard_on,
        timeout=task.timeout,
        start_within=task.start_within,
        on_late=task.on_late,
        keep_result=task.keep_result,
        isolation=task.isolation,
        memory=task.memory,
        tags=task.tags,
        schedules=task.schedules,
        limits=bound_words(task.limit),
        gates=task.gates,
        windows=tuple(stored_phrase(window, *_WINDOWS) for window in task.windows),
        parameters=tuple(
            ParameterSeen(
                name=each.name, required=each.required, secret=each.secret, type=each.type, default=each.default
            )
            for each in task.parameters
        ),
        seen_at=known.published_at,
    )
