"""What was enqueued, as a test looks at it, and what a test expects of it."""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from standfast.app import Standfast
from standfast.model.job import Job
from standfast.model.states import State
from standfast.stores.values import JobFilter
from standfast.task import Task

_PAGE = 500
_SAME_TIME = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job that was enqueued. `arguments` are those given, as the handler receives them.

    `run_at` is when it should run, or when it is tried again. `shown` is the arguments without secrets.
    """

    id: str
    task: str
    shown: str
    queue: str
    priority: int
    key: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, str]
    created_at: datetime
    run_at: datetime
    state: State
    arguments: Mapping[str, Any] = field(repr=False)

    @property
    def delay(self) -> timedelta:
        """How long after the enqueue it should run."""
        return self.run_at - self.created_at

    def __str__(self) -> str:
        words = [self.shown or "no arguments", f"queue={self.queue!r}"]
        words += [f"key={self.key!r}"] if self.key is not None else []
        words += [f"tags={self.tags!r}"] if self.tags else []
        words += [f"delay={self.delay.total_seconds():.9g}"] if self.delay > _SAME_TIME else []
        return f"{', '.join(words)} ({self.state})"


def all_enqueued(app: Standfast, task: str | None = None) -> list[Enqueued]:
    """Return the jobs in the app's store, of one task or of all, in the order of their ids."""
    found: list[Job] = []
    page = app.call(app.verbs.list_jobs(JobFilter(task=task, limit=_PAGE))).jobs
    while page:
        found += page
        page = app.call(app.verbs.list_jobs(JobFilter(task=task, limit=_PAGE, before=page[-1].id))).jobs
    return [_enqueued(job, app.tasks.get(job.task)) for job in reversed(found)]


def _enqueued(job: Job, task: Task[..., Any] | None) -> Enqueued:
    arguments: Mapping[str, Any] = {}
    shown = "arguments of an unknown task"
    if task is not None:
        arguments = task.arguments.decode(job.payload)
        scrub = task.arguments.scrub_for(job.payload, arguments)
        shown = scrub.text(_as_call(arguments))
    return Enqueued(
        id=job.id,
        task=job.task,
        shown=shown,
        queue=job.queue,
        priority=job.priority,
        key=job.key,
        tags=tuple(job.tags),
        metadata=job.metadata,
        created_at=job.created_at,
        run_at=job.run_at,
        state=job.state,
        arguments=arguments,
    )


@dataclass(frozen=True, slots=True)
class Expected:
    """What a test expects of a job; what it does not name may be anything."""

    task: Task[..., Any]
    options: Mapping[str, Any]
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        parameters = inspect.signature(self.task.fn).parameters
        known = [name for name in parameters if name != self.task.arguments.context_parameter]
        for name in self.arguments:
            if name not in known:
                takes = ", ".join(known) or "nothing"
                raise AssertionError(f"{self.task.name} has no parameter {name!r}; it takes {takes}")

    def __str__(self) -> str:
        words = _as_call({**self.arguments, **self.options})
        return f"{self.task.name} with {words}" if words else self.task.name

    def count(self, jobs: Iterable[Enqueued]) -> int:
        """Return how many of these jobs are as expected."""
        return sum(job.task == self.task.name and not self.differences(job) for job in jobs)

    def differences(self, job: Enqueued) -> list[str]:
        """Return the names of what is not as expected."""
        return [*self._other_options(job), *self._other_arguments(job)]

    def _other_options(self, job: Enqueued) -> Iterator[str]:
        for name, value in self.options.items():
            match name:
                case "at":
                    fits = abs(job.run_at - value) < _SAME_TIME
                case "delay":
                    span = value if isinstance(value, timedelta) else timedelta(seconds=value)
                    fits = abs(job.delay - span) < _SAME_TIME
                case "tags":
                    fits = set(value) <= set(job.tags)
                case _:
                    fits = value == getattr(job, name)
            if not fits:
                yield name

    def _other_arguments(self, job: Enqueued) -> Iterator[str]:
        defaults = inspect.signature(self.task.fn).parameters
        for name, value in self.arguments.items():
            if value != job.arguments.get(name, defaults[name].default):
                yield name

    def tell(self, jobs: Iterable[Enqueued]) -> str:
        """Return what was enqueued instead, a line for each job of the task and a word about the others."""
        ours, others = [], Counter[str]()
        for job in jobs:
            if job.task == self.task.name:
                differs = ", ".join(self.differences(job))
                ours.append(f"  {job}" + (f" <- differs: {differs}" if differs else ""))
            else:
                others[job.task] += 1
        lines = [f"jobs of {self.task.name}:", *ours] if ours else [f"no job of {self.task.name} was enqueued"]
        if others:
            lines.append("other tasks: " + ", ".join(f"{name} ({count})" for name, count in sorted(others.items())))
        return "\n".join(lines)


def _as_call(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
