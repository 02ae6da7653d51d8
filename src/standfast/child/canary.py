"""The canary: a job that shows that a queue is served. Every worker knows its task without anyone declaring it."""

from datetime import timedelta

from standfast.codec import Arguments
from standfast.core.job import NewJob, OnLate
from standfast.ids import new_job_id
from standfast.policy import PRIORITIES, Policy

CANARY = "standfast.canary"
"""The name of the task, and the tag of its jobs."""

POLICY = Policy(priority=PRIORITIES[-1], max_attempts=3, tags=(CANARY,), keep_result=timedelta(minutes=5))


async def canary() -> None:
    """Do nothing: that it was started is all it has to tell."""


def new_canary(queue: str, within: timedelta) -> NewJob:
    """Return a canary for a queue. It goes first there, and if nobody starts it within that time, it never runs."""
    return NewJob(
        id=new_job_id(),
        task=CANARY,
        payload=Arguments(canary, task=CANARY).encode((), {}),
        queue=queue,
        priority=POLICY.priority,
        max_attempts=POLICY.max_attempts,
        start_within=within,
        on_late=OnLate.EXPIRE,
        tags=POLICY.tags,
    )
