"""The canary: a job that shows that a queue is served. Every worker knows its task without anyone declaring it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from holdfast.codec import Arguments
from holdfast.core.job import NewJob, OnLate
from holdfast.handle import Caller
from holdfast.ids import new_job_id
from holdfast.policy import PRIORITIES, Policy
from holdfast.task import Task, declare_task

D = TypeVar("D")

CANARY = "holdfast.canary"
"""The name of the task, and the tag of its jobs."""

_POLICY = Policy(priority=PRIORITIES[-1], max_attempts=3, tags=(CANARY,), keep_result=timedelta(minutes=5))


async def _canary() -> None:
    """Do nothing: that it was started is all it has to tell."""


def new_canary(queue: str, within: timedelta) -> NewJob:
    """Return a canary for a queue. It goes first there, and if nobody starts it within that time, it never runs."""
    return NewJob(
        id=new_job_id(),
        task=CANARY,
        payload=Arguments(_canary, task=CANARY).encode((), {}),
        queue=queue,
        priority=_POLICY.priority,
        max_attempts=_POLICY.max_attempts,
        start_within=within,
        on_late=OnLate.EXPIRE,
        tags=_POLICY.tags,
    )


class WithCanary(Mapping[str, Task[..., Any]]):
    """The tasks of an app, those declared later included, and the canary."""

    def __init__(self, tasks: Mapping[str, Task[..., Any]], caller: Caller) -> None:
        self._tasks = tasks
        self._canary = declare_task(_canary, CANARY, _POLICY, caller)

    def get(self, name: str, default: D | None = None) -> Task[..., Any] | D | None:  # type: ignore[override]
        """Return the task, or the default; asked for every job, so the usual case comes first."""
        return self._tasks.get(name) or (self._canary if name == CANARY else default)

    def __getitem__(self, name: str) -> Task[..., Any]:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._tasks
        if CANARY not in self._tasks:
            yield CANARY

    def __len__(self) -> int:
        return sum(1 for _ in self)
