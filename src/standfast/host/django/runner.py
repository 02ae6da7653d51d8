"""The tasks of ours that run Django's: two for each backend in TASKS, for functions and for coroutines.

    started ─► the function ─► returns ─► finished, SUCCESSFUL
                    └────────► raises ──► finished, FAILED      (or READY, where it will be tried again)

Each step is told by a signal of Django's. A receiver that fails harms no job. What ends a process ends it without a
signal; the store tells of it all the same.
"""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.utils import timezone  # type: ignore[import-untyped]

from standfast.app import Standfast
from standfast.awaiting import run_at_once
from standfast.context import Context, Interrupted, Suspended
from standfast.core.job import Attempt
from standfast.core.outcome import Outcome, Retry, Snooze, Success
from standfast.errors import LostClaimError
from standfast.host.django.interface import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from standfast.host.django.results import Call, change, error_of, plain
from standfast.policy import Policy
from standfast.task import Task

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
        return run_at_once(_run(_Here(), _Attempt(ctx, call, alias, history, app.tasks[ctx.task].policy)))

    async def run_async_task(ctx: Context, call: Call) -> Any:
        history = await app.acall(app.verbs.history(ctx.job_id))
        return await _run(_OnLoop(), _Attempt(ctx, call, alias, history, app.tasks[ctx.task].policy))

    return run_task, run_async_task


class _Way(Protocol):
    """How a function is called and a signal sent: here and now, or from an event loop."""

    async def call(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any: ...

    async def tell(self, signal: Any, sender: type, result: Any) -> None: ...


class _Here:
    """Never waits, so that a thread without an event loop goes through it."""

    async def call(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return task.call(*args, **kwargs)

    async def tell(self, signal: Any, sender: type, result: Any) -> None:
        signal.send_robust(sender, task_result=result)


class _OnLoop:
    """Keeps the event loop free."""

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


async def _run(way: _Way, attempt: _Attempt) -> Any:
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
