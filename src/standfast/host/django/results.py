"""A job of ours as a TaskResult of Django's."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from standfast.codec import decode_result
from standfast.core.job import Attempt, Job
from standfast.core.states import State
from standfast.host.django.interface import TaskError, TaskResult, TaskResultStatus, task_named

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
