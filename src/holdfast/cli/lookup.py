"""Finding the job that a person means by its id, or by the end of it as workers and narrow tables show it."""

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from holdfast.core.job import Job
from holdfast.errors import JobNotFoundError
from holdfast.ids import new_job_id
from holdfast.store.backend import Backend
from holdfast.store.protocol import JobFilter

_SHORTEST_END = 6
_PAGE = 500
_RECENT = 50_000
"""Among so many of the newest jobs an end is looked for."""
_FULL_LENGTH = len(new_job_id())


def find_job(backend: Backend, wanted: str) -> Job:
    """Return the job with this id, or the one among the newest whose id ends so."""
    job = backend.run(backend.verbs.get(wanted))
    if job is not None:
        return job
    matches = _ending_with(backend, wanted) if _SHORTEST_END <= len(wanted) < _FULL_LENGTH else ()
    if not matches:
        raise JobNotFoundError(
            f"there is no job '{wanted}'; `holdfast jobs list` shows the ids"
            f" (the end of an id, {_SHORTEST_END} characters or more, finds one of the newest {_RECENT:,} jobs)"
        )
    if len(matches) > 1:
        ids = ", ".join(match.id for match in matches)
        raise JobNotFoundError(f"'{wanted}' is the end of {len(matches)} ids, give more of the one meant: {ids}")
    return matches[0]


def pages(backend: Backend, which: JobFilter) -> Iterator[Sequence[Job]]:
    """Walk from the newest id down, so that a job which comes back meanwhile is not met twice."""
    which = replace(which, limit=_PAGE)
    while page := backend.run(backend.verbs.list_jobs(which)):
        yield page
        which = replace(which, before=page[-1].id)


def _ending_with(backend: Backend, end: str) -> Sequence[Job]:
    """Return the newest that match, with those near them."""
    for page in islice(pages(backend, JobFilter()), _RECENT // _PAGE):
        if matches := [job for job in page if job.id.endswith(end.lower())]:
            return matches
    return ()
