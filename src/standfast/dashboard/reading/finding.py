"""Finding the job that is meant by its id, or by the last characters of it, as pages and logs show them."""

from standfast.core.job import Job
from standfast.dashboard.desk import Desk
from standfast.dashboard.reading.selecting import Selection, page_of
from standfast.dashboard.reading.shared_looks import store_now
from standfast.errors import JobNotFoundError
from standfast.ids import new_job_id
from standfast.phrases import Phrase
from standfast.store.protocol import JobFilter

_SHORTEST = 6
_FULL = len(new_job_id())
_MOST = 10
"""So many jobs whose ids end alike are told."""


async def find_job(desk: Desk, job_id: str) -> Job:
    """Return the job with this id, or the one among the newest whose id ends so. Raises JobNotFoundError."""
    job = await desk.ask(desk.verbs.get(job_id))
    if job is not None:
        return job
    matches = await _ending_with(desk, job_id.lower()) if _SHORTEST <= len(job_id) < _FULL else ()
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(match.id for match in matches)
        raise JobNotFoundError(Phrase("refusal.several_jobs", end=job_id, count=len(matches), ids=ids))
    raise JobNotFoundError(Phrase("refusal.no_job", job=job_id))


async def _ending_with(desk: Desk, end: str) -> tuple[Job, ...]:
    selection = Selection(JobFilter(), await store_now(desk), lambda job: job.id.endswith(end))
    return (await page_of(desk, selection, _MOST)).jobs
