"""In which incidents jobs were involved. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from standfast.core.incident import Incident
from standfast.incidents.naming import named_in
from standfast.words import short_id

Errors = Mapping[str, Iterable[str | None]]
"""By the ids of jobs, all that is told of their failures."""


def by_job(errors: Errors, incidents: Iterable[Incident]) -> Mapping[str, Sequence[Incident]]:
    """Return for each of the jobs the incidents in which it was involved, the newest first.

    One that happened often names only the last jobs: the errors of the others name it.
    """
    ends = {job_id: {named_in(error) for error in each} for job_id, each in errors.items()}
    found: dict[str, list[Incident]] = {job_id: [] for job_id in errors}
    for incident in incidents:
        named_jobs = {job.job_id for job in incident.jobs}
        for job_id, involving in found.items():
            if job_id in named_jobs or short_id(incident.id) in ends[job_id]:
                involving.append(incident)
    return found
