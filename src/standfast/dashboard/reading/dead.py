"""Dead jobs, grouped by what went wrong."""

from collections.abc import Sequence

from standfast.core.job import Job
from standfast.core.states import State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.selecting import SPAN, group_of, pages_of, select
from standfast.dashboard.shapes.dead import DeadAsked, DeadGroup, DeadSeen
from standfast.dashboard.shapes.jobs import JobsWhich
from standfast.watch.fingerprint import shape_of
from standfast.words import one_line


@reads("dead.groups", "/dead")
async def group_dead(desk: Desk, asked: DeadAsked) -> DeadSeen:
    """Group dead jobs by what went wrong, the largest group first."""
    which = JobsWhich(state=(State.DEAD,), task=asked.task, queue=asked.queue, since=asked.since)
    selection = await select(desk, which)
    grouped: dict[str, list[Job]] = {}
    looked_at = 0
    async for found in pages_of(desk, selection, SPAN):
        looked_at += len(found.jobs)
        for job in found.jobs:
            grouped.setdefault(group_of(job), []).append(job)
    counts = await desk.ask(desk.verbs.count())
    groups = (_group(name, jobs) for name, jobs in grouped.items())
    return DeadSeen(
        now=selection.now,
        groups=tuple(sorted(groups, key=lambda group: (-group.count, group.fingerprint))),
        looked_at=looked_at,
        total=counts[State.DEAD],
        span=SPAN,
    )


def _group(name: str, jobs: Sequence[Job]) -> DeadGroup:
    ends = [job.finished_at or job.run_at for job in jobs]
    return DeadGroup(
        fingerprint=name,
        error=one_line(jobs[0].error or "", 500),
        shape=shape_of(jobs[0].error or ""),
        count=len(jobs),
        tasks=tuple(sorted({job.task for job in jobs})),
        queues=tuple(sorted({job.queue for job in jobs})),
        first=min(ends),
        last=max(ends),
        example=jobs[0].id,
    )
