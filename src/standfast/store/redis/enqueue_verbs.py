"""How jobs are accepted: in columns, up to a thousand or so at once, as that is the least to pack and to read."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from standfast.core.job import NewJob
from standfast.store.redis.job_texts import is_short, write_job, write_short_job
from standfast.store.redis.packing import pack
from standfast.store.redis.rows import pairs
from standfast.store.refusals import key_taken
from standfast.store.times import span_to_micros, to_micros
from standfast.store.verb import Access, Script, Steps, Verb
from standfast.store.waking import enqueuing


class EnqueueVerbs:
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key."""
        if len(jobs) == 1 and is_short(jobs[0]):
            return Verb("enqueue", Access.WRITE, _enqueue_one(jobs[0]), wakes=True)
        return enqueuing(jobs, partial(_enqueue, jobs))


def _enqueue(jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
    if not jobs:
        return {}
    columns, texts = in_columns(jobs)
    met, holder = yield Script("enqueue", (pack(columns), texts))
    if holder is not None:
        raise key_taken(*(word.decode() for word in holder))
    return {job_id.decode(): other.decode() for job_id, other in pairs(met)}


def _enqueue_one(job: NewJob) -> Steps[Mapping[str, str]]:
    """Accept one plain job: most calls are for one."""
    known = yield Script("enqueue_one", (job.id, write_short_job(job), job.queue, f"0:{job.priority}"))
    return {job.id: job.id} if known else {}


def in_columns(jobs: Sequence[NewJob]) -> tuple[Sequence[Any], bytes]:
    """Return jobs as `accepting.lua` reads them, no two with one id, and what is stored of them."""
    jobs = _different(jobs)
    # What is_short says, without a call of it for each of many.
    special = [
        (number, job)
        for number, job in enumerate(jobs, 1)
        if job.run_at is not None or job.delay or not job.is_plain
    ]
    texts = [write_job(job) for job in jobs] if special else [write_short_job(job) for job in jobs]
    return _columns(jobs, special, texts), b"".join(texts)


def _different(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return the jobs without those whose id one before them has."""
    if len({job.id for job in jobs}) == len(jobs):
        return jobs
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    return list(first.values())


def _columns(
    jobs: Sequence[NewJob], special: Sequence[tuple[int, NewJob]], texts: Sequence[bytes]
) -> tuple[Any, ...]:
    places: dict[tuple[str, int], int] = {}
    place_of = [places.setdefault((job.queue, job.priority), len(places) + 1) for job in jobs]
    return (
        [job.id for job in jobs],
        [len(text) for text in texts],
        list(places),
        place_of if len(places) > 1 else None,
        {number: to_micros(job.run_at) for number, job in special if job.run_at is not None} or None,
        {number: span_to_micros(job.delay) for number, job in special if job.delay} or None,
        {number: _more(job) for number, job in special if job.key is not None or job.keep_key or job.tags} or None,
    )


def _more(job: NewJob) -> tuple[Any, ...]:
    flagged = job.key is not None or bool(job.keep_key)
    return (job.task, job.key, job.on_conflict.value, job.tags, flagged)
