"""Jobs as rows. Pure."""

from standfast.core.job import Job
from standfast.core.provenance import schedule_of
from standfast.core.states import State
from standfast.dashboard.reading.selecting import group_of
from standfast.dashboard.reading.shown import progress_seen
from standfast.dashboard.shapes.jobs import JobRow
from standfast.watch.jobfields import waits_for
from standfast.words import one_line

LONGEST_ERROR = 500
"""Characters of an error in a row."""


def job_row(job: Job) -> JobRow:
    """Return a job in short."""
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        reason=job.reason,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        at=job.finished_at or job.run_at,
        run_at=job.run_at,
        created_at=job.created_at,
        finished_at=job.finished_at,
        worker=job.worker,
        key=job.key,
        tags=job.tags,
        schedule=schedule_of(job.metadata),
        waits_for=waits_for(job),
        cancel_requested=job.cancel_requested,
        progress=progress_seen(job.progress),
        error=one_line(job.error, LONGEST_ERROR) if job.error else None,
        fingerprint=group_of(job) if job.state is State.DEAD else None,
    )
