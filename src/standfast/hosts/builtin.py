"""Tasks that every worker knows without anyone declaring them: the canary, and the delivery of notices."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

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

CANARY = "standfast.canary"  # the name of the task, and the tag of its jobs
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


def built_in_tasks(
    app: Standfast, now: Callable[[], datetime], programs: Programs, name: str = ""
) -> dict[str, Task[..., Any]]:
    """Return the tasks that every worker knows: the canary, and the delivery of notices, which starts `programs`."""
    deliver = deliver_by(lambda: replace(app.watching, app=name), now, programs)
    return {
        CANARY: declare_task(canary, CANARY, CANARY_POLICY, app),
        DELIVER: declare_task(deliver, DELIVER, DELIVERY, app),
    }
