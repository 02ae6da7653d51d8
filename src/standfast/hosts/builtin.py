"""The canary: a job that shows that a queue is served. Every worker knows its task without anyone declaring it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from standfast.app import Standfast
from standfast.model.arguments import Arguments
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob, OnLate
from standfast.model.policy import Policy
from standfast.model.validation import PRIORITIES
from standfast.observe.alerts.delivery import DELIVER, deliver_by
from standfast.observe.alerts.delivery import POLICY as DELIVERY
from standfast.observe.alerts.senders import Programs
from standfast.task import Task, declare_task

CANARY = "standfast.canary"
"""The name of the task, and the tag of its jobs."""

CANARY_POLICY = Policy(priority=PRIORITIES[-1], max_attempts=3, tags=(CANARY,), keep_result=timedelta(minutes=5))


async def canary() -> None:
    """Do nothing: that it was started is all it has to tell."""


def new_canary(queue: str, within: timedelta) -> NewJob:
    """Return a canary for a queue. It goes first there, and if nobody starts it within that time, it never runs."""
    return NewJob(
        id=new_job_id(),
        task=CANARY,
        payload=Arguments(canary, task=CANARY).encode((), {}),
        queue=queue,
        priority=CANARY_POLICY.priority,
        max_attempts=CANARY_POLICY.max_attempts,
        start_within=within,
        on_late=OnLate.EXPIRE,
        tags=CANARY_POLICY.tags,
    )


# Tasks that every worker knows without anyone declaring them: the canary, and the delivery of notices.

D = TypeVar("D")


class TaskRegistry(Mapping[str, Task[..., Any]]):
    """The tasks of an app, those declared later included, and those that are built in."""

    def __init__(self, app: Standfast, now: Callable[[], datetime], name: str = "") -> None:
        self._tasks = app.tasks
        self.programs = Programs()
        """What deliveries have started."""
        deliver = deliver_by(lambda: replace(app.watching, app=name), now, self.programs)
        self._built_in = {
            CANARY: declare_task(canary, CANARY, CANARY_POLICY, app),
            DELIVER: declare_task(deliver, DELIVER, DELIVERY, app),
        }

    def get(self, name: str, default: D | None = None) -> Task[..., Any] | D | None:  # type: ignore[override]
        """Return the task, or the default; asked for every job, so the usual case comes first."""
        return self._tasks.get(name) or self._built_in.get(name) or default

    def __getitem__(self, name: str) -> Task[..., Any]:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._tasks
        yield from (name for name in self._built_in if name not in self._tasks)

    def __len__(self) -> int:
        return sum(1 for _ in self)
