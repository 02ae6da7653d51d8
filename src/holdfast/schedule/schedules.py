"""Schedules as people deal with them: declared in code, or made, changed and looked at while the system runs."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ParamSpec

from holdfast.core.record import Fire
from holdfast.errors import ArgumentsError, ConfigurationError
from holdfast.policy.problems import name_problems, refuse_any
from holdfast.schedule import backfilling, errands
from holdfast.schedule.declaring import Declaration
from holdfast.schedule.plan import Schedule, Template
from holdfast.schedule.rules import AnyRule, Rule
from holdfast.store.errand import Errand
from holdfast.store.protocol import Store
from holdfast.store.verb import Verb
from holdfast.task import BoundTask, Task

P = ParamSpec("P")

_OF_ONE_JOB = ("delay", "run_at", "job_id", "key", "retry_for", "tx")
"""Options that say something about one job, and nothing about every job of a schedule."""


def declare(
    name: str,
    task: Task[..., Any] | BoundTask[..., Any],
    rule: AnyRule,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Declaration:
    """Return a checked declaration. Raises ConfigurationError or ArgumentsError."""
    refuse_any(name_problems("schedule", name))
    if not isinstance(rule, Rule):
        raise ConfigurationError(
            f'schedule {name!r} needs a rule such as Cron("0 2 * * *") or Every(300), not {rule!r:.80}'
        )
    return Declaration(name, rule, _template(name, task, args, kwargs))


def declare_own(task: Task[..., Any], rule: AnyRule) -> Declaration:
    """Return the declaration of a task's own schedule, which gives it no arguments."""
    try:
        return declare(task.name, task, rule, (), {})
    except ArgumentsError as error:
        raise ConfigurationError(
            f"task {task.name} has a schedule, which gives it no arguments, and cannot run without: {error}; give"
            f" them defaults, or declare app.schedule({task.name!r}, {task.__name__}, rule, ...) with arguments"
        ) from error


def _template(
    name: str, task: Task[..., Any] | BoundTask[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Template:
    bound = task.options() if isinstance(task, Task) else task
    if not isinstance(bound, BoundTask):
        raise ConfigurationError(f"schedule {name!r} needs a task of the app, not {task!r:.80}")
    for option in _OF_ONE_JOB:
        if getattr(bound.given, option) != getattr(type(bound.given)(), option):
            word = "at" if option == "run_at" else option
            raise ConfigurationError(
                f"schedule {name!r}: the option {word} is about one job; a schedule takes queue, priority,"
                " max_attempts, start_within, on_late, tags and metadata"
            )
    job = bound.request(args, kwargs)
    return Template(
        task=job.task,
        payload=job.payload,
        version=job.version,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        start_within=job.start_within,
        on_late=job.on_late,
        tags=job.tags,
        metadata=job.metadata,
    )


class Schedules:
    """What can be done with schedules. Each method returns what `app.call` or `await app.acall` then does."""

    def __init__(self, verbs: Store, ahead: timedelta) -> None:
        self._verbs = verbs
        self._ahead = ahead

    def create(
        self, name: str, task: Task[P, Any] | BoundTask[P, Any], rule: AnyRule, /, *args: P.args, **kwargs: P.kwargs
    ) -> Errand[Schedule]:
        """Make a schedule that outlives this process. Raises ScheduleExistsError where its name is taken."""
        made = declare(name, task, rule, args, kwargs)
        return errands.create(self._verbs, made.name, made.rule, made.job, self._ahead)

    def edit(
        self,
        name: str,
        *,
        rule: AnyRule | Callable[[AnyRule], AnyRule] | None = None,
        job: Callable[[Template], Template] | None = None,
    ) -> Errand[Schedule]:
        """Change when it fires, the job that it enqueues, or both; a function makes the new one of the old.

        What it has fired ahead of its time is taken back, unless a worker has it. A schedule that was declared in
        code stays changed until its declaration is.
        """
        return errands.edit(self._verbs, name, self._ahead, rule, job)

    def pause(self, name: str, why: str | None = None) -> Errand[Schedule]:
        """Let it fire no more until it is resumed; what it has fired ahead of its time is cancelled."""
        return errands.pause_one(self._verbs, name, why)

    def resume(self, name: str) -> Errand[Schedule]:
        """Let it fire again, from now on: what was planned meanwhile is not made up for."""
        return errands.resume(self._verbs, name, self._ahead)

    def trigger(self, name: str) -> Errand[str]:
        """Fire once, now, whatever its rule says; the answer is the id of the job."""
        return errands.trigger(self._verbs, name)

    def delete(self, name: str) -> Errand[None]:
        """Forget it and its fires; one that code declares comes back when a worker starts."""
        return errands.delete(self._verbs, name)

    def backfill(
        self,
        name: str,
        since: datetime,
        until: datetime,
        *,
        again: bool = False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Errand[int]:
        """Enqueue a job for each planned time of a past range that was not fired; the answer is how many.

        With `again` also for those that were. `progress` hears how many are enqueued, and of how many. Times about
        which a schedule that goes on has not decided yet are left to it.
        """
        return backfilling.backfill(self._verbs, name, since, until, again=again, progress=progress)

    def backfill_times(
        self, name: str, since: datetime, until: datetime, *, again: bool = False
    ) -> Errand[tuple[datetime, ...]]:
        """Look at the planned times for which `backfill` would enqueue a job."""
        return backfilling.backfill_times(self._verbs, name, since, until, again=again)

    def get(self, name: str) -> Errand[Schedule]:
        """Look at a schedule. Raises ScheduleNotFoundError."""
        return errands.get(self._verbs, name)

    def list(self) -> Errand[tuple[Schedule, ...]]:
        """Look at all schedules, by name; one that cannot be read here is left out, and the log tells of it."""
        return errands.list_all(self._verbs)

    def fires(
        self, name: str | None = None, limit: int = 50, before: datetime | None = None
    ) -> Verb[tuple[Fire, ...]]:
        """Look at what became of the planned times of one schedule or of all, the latest first."""
        return self._verbs.fires(name, limit, before)
