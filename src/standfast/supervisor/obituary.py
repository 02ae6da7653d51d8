"""Says of the jobs that a dead worker took with it for good what no worker is left to say."""

from collections.abc import Iterable

from standfast.core.job import ClaimRef, Failure, Job
from standfast.core.states import State
from standfast.errors import StoreError
from standfast.events import Events, JobDied
from standfast.worker.storecalls import StoreCalls


async def find_dead(calls: StoreCalls, buried: Iterable[ClaimRef]) -> list[Job]:
    """Return those of the claims given back whose job is a dead letter now; none where the store is away again."""
    try:
        seen = await calls.once(calls.verbs.glance([ref.job_id for ref in buried]))
        dead = [job_id for job_id, glance in seen.items() if glance.state is State.DEAD]
        jobs = [await calls.once(calls.verbs.get(job_id)) for job_id in dead]
    except StoreError:
        return []
    return [job for job in jobs if job is not None]


def tell_dead(events: Events, jobs: Iterable[Job], evidence: str) -> None:
    """Say of each job that it died, and of what."""
    for job in jobs:
        failure = Failure("Crash", evidence)
        events.emit(JobDied(job.id, job.task, job.queue, job.attempt, job.max_attempts, failure))
