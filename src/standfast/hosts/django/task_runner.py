"""Run tasks of `django.tasks` (Django 6) or of the package django-tasks, and tell their results."""

import asyncio
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.core.exceptions import SuspiciousOperation  # type: ignore[import-untyped]
from django.utils import timezone  # type: ignore[import-untyped]
from django.utils.module_loading import import_string  # type: ignore[import-untyped]

from standfast.app import Standfast
from standfast.context import Context
from standfast.errors import LostClaimError
from standfast.model.codec import decode_result
from standfast.model.concurrency import run_without_loop
from standfast.model.job import Attempt, Job
from standfast.model.outcomes import Interrupted, Outcome, Retry, Snooze, Success, Suspended
from standfast.model.policy import Policy
from standfast.model.states import State
from standfast.task import Task

_NEW, _OLD = "django.tasks", "django_tasks"
_IS_NEW = find_spec(_NEW) is not None
_HOME = _NEW if _IS_NEW else _OLD


def _take(module: str, *names: str) -> Any:
    """Return what a module of the tasks has under one of these names."""
    found = import_module(f"{_HOME}.{module}")
    return next(getattr(found, name) for name in names if hasattr(found, name))


BaseTaskBackend: Any = _take("backends.base", "BaseTaskBackend")
DjangoTask: Any = _take("base", "Task")
TaskContext: Any = _take("base", "TaskContext")
TaskError: Any = _take("base", "TaskError")
TaskResult: Any = _take("base", "TaskResult")
TaskResultStatus: Any = _take("base", "TaskResultStatus")
InvalidTask: Any = _take("exceptions", "InvalidTask", "InvalidTaskError")
TaskResultDoesNotExist: Any = _take("exceptions", "TaskResultDoesNotExist")
task_enqueued: Any = _take("signals", "task_enqueued")
task_started: Any = _take("signals", "task_started")
task_finished: Any = _take("signals", "task_finished")
task_backends: Any = import_module(_HOME).task_backends
normalize_json: Any = import_module("django.utils.json" if _IS_NEW else f"{_OLD}.utils").normalize_json


def task_named(path: str) -> Any:
    """Return the task that a dotted path leads to. Raises ImportError, or SuspiciousOperation for anything else.

    Whoever can write to the store could otherwise have any function called that can be imported.
    """
    found = import_string(path)
    if not isinstance(found, _task_classes()):
        raise SuspiciousOperation(f"{path} is not a task, and only tasks are run")
    return found


def _task_classes() -> tuple[type, ...]:
    """Return the classes of tasks; a project on Django 6 may have those of django-tasks as well."""
    if _IS_NEW and find_spec(_OLD) is not None:
        return DjangoTask, import_module(f"{_OLD}.base").Task
    return (DjangoTask,)


_STATUS = {
    State.RUNNING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""What waits, for whatever, is READY."""


def plain(value: Any) -> Any:
    """Return what Django takes for JSON in JSON's own types: a TextChoices or a SafeString is a str to it."""
    match value:
        case dict():
            return {plain(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case str():
            return str.__str__(value)
        case int() if not isinstance(value, bool):
            return int(value)
        case float():
            return float(value)
        case _:
            return value


class Call(msgspec.Struct, frozen=True):
    """What the job of a Django task carries: which function to call with what, and what its TaskResult tells.

    The path leads to a task of Django's, and to nothing else.
    """

    path: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int
    enqueued_at: datetime
    run_after: datetime | None = None

    def result(self, job_id: str, alias: str, queue: str, history: Sequence[Attempt]) -> Any:
        """Return the TaskResult of the job, READY, with what its attempts so far came to."""
        task = task_named(self.path).using(
            priority=self.priority, queue_name=queue, run_after=self.run_after, backend=alias
        )
        started = [attempt for attempt in history if attempt.started_at is not None]
        return TaskResult(
            task=task,
            id=job_id,
            status=TaskResultStatus.READY,
            enqueued_at=self.enqueued_at,
            started_at=started[0].started_at if started else None,
            last_attempted_at=started[-1].started_at if started else None,
            finished_at=None,
            args=self.args,
            kwargs=self.kwargs,
            backend=alias,
            errors=list(_errors(history)),
            worker_ids=[attempt.worker for attempt in started for _ in range(attempt.folded or 1)],
        )


def result_of(job: Job, call: Call, alias: str, history: Sequence[Attempt]) -> Any:
    """Return the TaskResult of a job as it is in the store."""
    result = call.result(job.id, alias, job.queue, history)
    status = _STATUS.get(job.state, TaskResultStatus.READY)
    change(result, status=status, finished_at=job.finished_at)
    if job.state is State.COMPLETED:
        change(result, _return_value=decode_result(job.result or b"null"))
    if job.state is State.CANCELLED and not result.errors:
        result.errors.append(_error("standfast.errors.JobCancelledError", f"cancelled: {job.reason}"))
    return result


def change(result: Any, **values: Any) -> None:
    """Change a TaskResult, which is frozen for those who receive it."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def error_of(error: BaseException, traceback: str) -> Any:
    """Return an exception as a TaskError."""
    kind = type(error)
    return _error(f"{kind.__module__}.{kind.__qualname__}", traceback)


def _errors(history: Sequence[Attempt]) -> Iterator[Any]:
    for attempt in history:
        if attempt.error is not None:
            kind, _, _ = attempt.error.partition(": ")
            if " " in kind:  # no exception of the function's, but what the supervisor saw
                kind = "standfast.errors.JobDeadError"
            path = kind if "." in kind else f"builtins.{kind}"
            yield _error(path, attempt.traceback or f"{attempt.error}\n")


def _error(path: str, traceback: str) -> Any:
    return TaskError(exception_class_path=path, traceback=traceback)


#     started ─► the function ─► returns ─► finished, SUCCESSFUL
#                     └────────► raises ──► finished, FAILED      (or READY, where it will be tried again)
#
# Each step is told by a signal of Django's. A receiver that fails harms no job. What ends a process ends it without a
# signal; the store tells of it all the same.

_DECLARING = Lock()
_NOT_OVER = (asyncio.CancelledError, Interrupted, LostClaimError, Snooze, Success, Suspended)
"""What says that the attempt was interrupted, or how to go on; no failure in any case."""


@dataclass(frozen=True, slots=True)
class Runners:
    """The two tasks of ours through which a backend runs those of Django."""

    plain: Task[..., Any]
    awaited: Task[..., Any]

    def of(self, *, is_async: bool) -> Task[..., Any]:
        """Return the one for a function, or for a coroutine."""
        return self.awaited if is_async else self.plain

    def named(self, name: str) -> Task[..., Any] | None:
        """Return the one of this name."""
        return next((runner for runner in (self.plain, self.awaited) if runner.name == name), None)


def runners_of(app: Standfast, alias: str, **policy: Any) -> Runners:
    """Return the tasks of a backend, declared at the first call."""
    name = f"django.{alias}"
    names = (name, f"{name}.async")
    with _DECLARING:
        if name not in app.tasks:
            for each, runs in zip(names, _functions(app, alias), strict=True):
                app.task(runs, name=each, **policy)
    plain, awaited = (app.tasks[each] for each in names)
    return Runners(plain, awaited)


def _functions(app: Standfast, alias: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def run_task(ctx: Context, call: Call) -> Any:
        history = app.call(app.verbs.history(ctx.job_id))
        return run_without_loop(_run(_Here(), _Attempt(ctx, call, alias, history, app.tasks[ctx.task].policy)))

    async def run_async_task(ctx: Context, call: Call) -> Any:
        history = await app.acall(app.verbs.history(ctx.job_id))
        return await _run(_OnLoop(), _Attempt(ctx, call, alias, history, app.tasks[ctx.task].policy))

    return run_task, run_async_task


class _Here:
    """Calls functions and sends signals here and now, and never waits: a thread needs no event loop for it."""

    async def call(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return task.call(*args, **kwargs)

    async def tell(self, signal: Any, sender: type, result: Any) -> None:
        signal.send_robust(sender, task_result=result)


class _OnLoop:
    """Does so from an event loop, and keeps that free."""

    async def call(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if asyncio.iscoroutinefunction(task.func):
            return await task.func(*args, **kwargs)
        # It was a coroutine when it was enqueued.
        return await sync_to_async(task.func, thread_sensitive=False)(*args, **kwargs)

    async def tell(self, signal: Any, sender: type, result: Any) -> None:
        await sync_to_async(signal.send_robust)(sender, task_result=result)


class _Attempt:
    """One attempt of a Django task, and the TaskResult that its function and the receivers of signals see."""

    def __init__(self, ctx: Context, call: Call, alias: str, history: Sequence[Attempt], policy: Policy) -> None:
        self._ctx = ctx
        self._policy = policy
        self.sender = type(task_backends[alias])
        before = [attempt for attempt in history if attempt.fence < ctx.fence]
        worker = next((attempt.worker for attempt in history if attempt.fence == ctx.fence), "")
        self.result = call.result(ctx.job_id, alias, ctx.queue, before)
        now = timezone.now()
        self.result.worker_ids.append(worker)
        change(
            self.result,
            status=TaskResultStatus.RUNNING,
            started_at=self.result.started_at or now,
            last_attempted_at=now,
        )

    @property
    def args(self) -> list[Any]:
        """What the function is called with."""
        context = [TaskContext(task_result=self.result)] if self.result.task.takes_context else []
        return [*context, *self.result.args]

    def returned(self, value: Any) -> None:
        """Take note of what the function returned."""
        change(self.result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)

    def raised(self, error: BaseException) -> None:
        """Take note of what the function raised."""
        self.result.errors.append(error_of(error, "".join(traceback.format_exception(error))))
        change(self.result, status=TaskResultStatus.FAILED, finished_at=timezone.now())

    def is_over(self, error: BaseException) -> bool:
        """Tell whether the task has failed with this, and will not be tried again."""
        if isinstance(error, _NOT_OVER):
            return False
        if isinstance(error, Outcome) and not isinstance(error, Retry):
            return True
        retried = isinstance(error, Retry) or not self._policy.retry_on or isinstance(error, self._policy.retry_on)
        return not retried or self._ctx.attempt >= self._ctx.max_attempts


async def _run(way: _Here | _OnLoop, attempt: _Attempt) -> Any:
    result, sender = attempt.result, attempt.sender
    await way.tell(task_started, sender, result)
    try:
        value = plain(normalize_json(await way.call(result.task, attempt.args, result.kwargs)))
    except BaseException as error:
        if attempt.is_over(error):
            attempt.raised(error)
            await way.tell(task_finished, sender, result)
        raise
    attempt.returned(value)
    await way.tell(task_finished, sender, result)
    return value
