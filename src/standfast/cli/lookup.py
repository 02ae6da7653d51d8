"""Finding the job that a person means by its id, or by the end of it as workers and narrow tables show it."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from standfast.admin.job_search import AT_ONCE
from standfast.cli.connection import StoreOptions
from standfast.errors import JobNotFoundError
from standfast.model.display import one_line
from standfast.model.ids import new_job_id
from standfast.model.job import Job
from standfast.model.records import Kind
from standfast.model.suggestions import closest_name
from standfast.observe.catalogue import read_catalogue
from standfast.stores.backend import Backend
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure

_SHORTEST_END = 6
_PAGE = AT_ONCE
_RECENT = 50_000
"""Among so many of the newest jobs an end is looked for."""
_SEEN = 200
"""Among so many of the newest jobs the names of tasks are looked for that no worker has published."""
_FULL_LENGTH = len(new_job_id())


def find_job(wanted: StoreOptions, backend: Backend, job_id: str) -> Job:
    """Return the job with this id, or the one among the newest whose id ends so."""
    job = backend.run(backend.verbs.get(job_id))
    if job is not None:
        return job
    matches = _ending_with(backend, job_id) if _SHORTEST_END <= len(job_id) < _FULL_LENGTH else ()
    if not matches:
        raise JobNotFoundError(_no_such_job(wanted, backend, job_id))
    if len(matches) > 1:
        ids = ", ".join(match.id for match in matches)
        raise JobNotFoundError(f"'{job_id}' is the end of {len(matches)} ids, give more of the one meant: {ids}")
    return matches[0]


def _no_such_job(wanted: StoreOptions, backend: Backend, job_id: str) -> str:
    """Return what may be behind it that there is no such job."""
    if backend.run(backend.verbs.records(Kind.SCHEDULE, (job_id,))):
        name = shlex.quote(job_id)
        return (
            f"'{job_id}' is a schedule, not a job: `standfast schedules show {name}` says how it stands,"
            f" `standfast schedules fires {name}` what became of its times, and"
            f" `standfast jobs list --schedule {name}` lists its jobs"
        )
    if backend.run(backend.verbs.records(Kind.INCIDENT, (job_id,))):
        return f"'{job_id}' is an incident, not a job: `standfast incidents show {job_id}` tells of it"
    return (
        f"there is no job '{job_id}' in {wanted.place}: it may be in another (--url, --namespace), its transaction"
        " may not be committed, or it is over and forgotten (keep_finished, keep_dead); `standfast jobs list` shows"
        f" the ids (the end of one, {_SHORTEST_END} characters or more, finds one of the newest {_RECENT:,} jobs)"
    )


def pages(backend: Backend, which: JobFilter) -> Iterator[Sequence[Job]]:
    """Walk from the newest id down, so that a job which comes back meanwhile is not met twice."""
    which = replace(which, limit=_PAGE)
    while page := backend.run(backend.verbs.list_jobs(which)).jobs:
        yield page
        which = replace(which, before=page[-1].id)


def unknown_names(backend: Backend, queue: str | None, task: str | None) -> str | None:
    """Return which of these names nothing in the store has, as far as that is seen, with the one that was meant."""
    view = run_procedure(backend.run, read_catalogue(backend.verbs))
    seen = backend.run(backend.verbs.list_jobs(JobFilter(limit=_SEEN))).jobs
    queues = {each.name for each in view.queues} | {each.name for each in backend.run(backend.verbs.queues())}
    queues.update(*(each.info.queues or () for each in backend.run(backend.verbs.workers())))
    tasks = {each.task.name for each in view.tasks} | {each.task for each in seen}
    for kind, name, known in (("queue", queue, queues), ("task", task, tasks)):
        if name is not None and name not in known:
            if backend.run(backend.verbs.list_jobs(JobFilter(queue=queue, task=task, limit=1))).jobs:
                return None
            meant = closest_name(name, known)
            slip = "" if meant is None else f"; did you mean {one_line(meant)}?"
            return f"no job and no worker knows a {kind} {name!r}{slip}"
    return None


def _ending_with(backend: Backend, end: str) -> Sequence[Job]:
    """Return the newest that match, with those near them."""
    for page in islice(pages(backend, JobFilter()), _RECENT // _PAGE):
        if matches := [job for job in page if job.id.endswith(end.lower())]:
            return matches
    return ()
