"""Which jobs were running in a process, with what the store knows of them."""

import asyncio
from collections.abc import Iterable, Sequence

from standfast.core.incident import InvolvedJob
from standfast.core.job import ClaimRef, Job, Progress
from standfast.core.states import State
from standfast.errors import StoreError
from standfast.store.protocol import JobFilter
from standfast.words import counted, with_note
from standfast.worker.storecalls import StoreCalls

MOST_ASKED = 50
"""Jobs that the store is asked about for one incident; of more, the ids alone are told."""

MOST_RUNNING = 1000
"""Running jobs of the whole fleet among which those of a lost worker are looked for."""

MOST_NAMED = 5
"""Tasks that the words about an incident name."""

WITHIN = 2.0
"""Seconds for the store to answer."""


async def involved(calls: StoreCalls | None, refs: Iterable[ClaimRef]) -> tuple[InvolvedJob, ...]:
    """Return the jobs behind these claims; only their ids where the store cannot be asked."""
    wanted = sorted(refs)
    told: dict[str, Job] = {}
    if calls is not None:
        try:
            async with asyncio.timeout(WITHIN):
                for ref in wanted[:MOST_ASKED]:
                    job = await calls.once(calls.verbs.get(ref.job_id))
                    told |= {} if job is None else {job.id: job}
        except (StoreError, TimeoutError):
            pass
    return tuple(_involved(ref, told.get(ref.job_id)) for ref in wanted)


async def jobs_of(calls: StoreCalls, worker: str) -> tuple[InvolvedJob, ...]:
    """Return the jobs that are marked as running on a worker."""
    running = await calls.once(calls.verbs.list_jobs(JobFilter(states=(State.RUNNING,), limit=MOST_RUNNING)))
    return tuple(_involved(ClaimRef(job.id, job.fence), job) for job in running if job.worker == worker)


def running(jobs: Sequence[InvolvedJob]) -> str:
    """Return what ran, to follow what happened: ` while it ran send_email 0197…`."""
    return f" while it ran {words_of(jobs)}" if jobs else " with no job running"


def words_of(jobs: Sequence[InvolvedJob]) -> str:
    """Return these jobs, of which there is one at least: `send_email 0197…`, or `2 jobs of crash, send_email`.

    Of several nobody knows which is to blame: so none is named before the others.
    """
    if len(jobs) == 1:
        return f"{jobs[0].task or 'job'} {jobs[0].job_id}"
    tasks = sorted({job.task for job in jobs if job.task})
    more = len(tasks) - MOST_NAMED
    named = f" of {', '.join(tasks[:MOST_NAMED])}" if tasks else ""
    return f"{counted(len(jobs), 'job')}{named}{f' and {more} more' if more > 0 else ''}"


def _involved(ref: ClaimRef, job: Job | None) -> InvolvedJob:
    if job is None:
        return InvolvedJob(ref.job_id, ref.fence)
    same = job.fence == ref.fence
    # Once it was given back, nobody can tell whether that was charged.
    attempt = job.attempt + 1 if same and job.state in {State.HELD, State.RUNNING} else 0
    return InvolvedJob(ref.job_id, ref.fence, job.task, attempt, _progress(job.progress) if same else None)


def _progress(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    words = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    return with_note(words, progress.note)
