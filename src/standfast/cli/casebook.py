"""The incidents of a store as commands need them: found by id, selected, with what has become of their jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import click
from msgspec.structs import replace

from standfast.cli.connection import Wanted
from standfast.cli.lookup import find_job
from standfast.cli.typed import read_moment
from standfast.clock import SystemClock
from standfast.core.incident import Incident, InvolvedJob, Trouble
from standfast.core.job import Job
from standfast.errors import IncidentNotFoundError, JobNotFoundError
from standfast.incidents.book import list_incidents
from standfast.incidents.naming import named_in
from standfast.schedule.zones import find_zone
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.watch.spans import read_span
from standfast.words import short_id

_SHORTEST_END = 6


def read_casebook(backend: Backend) -> tuple[Incident, ...]:
    """Return all incidents, the newest first."""
    return run_errand(backend.run, list_incidents(backend.verbs))


def with_tasks(backend: Backend, incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents with the names of the tasks of their jobs, as far as these are there to tell."""
    incidents = list(incidents)
    nameless = [job.job_id for incident in incidents for job in incident.jobs if not job.task]
    found = read_jobs(backend, nameless)
    return [named(incident, found) for incident in incidents]


def named(incident: Incident, found: Mapping[str, Job]) -> Incident:
    """Return an incident with the names of the tasks of those of its jobs that were found."""
    jobs = [job if job.task or job.job_id not in found else _named(job, found) for job in incident.jobs]
    return replace(incident, jobs=tuple(jobs))


def _named(job: InvolvedJob, found: Mapping[str, Job]) -> InvolvedJob:
    return replace(job, task=found[job.job_id].task)


def read_jobs(backend: Backend, job_ids: Iterable[str]) -> dict[str, Job]:
    """Return those of the jobs that still exist."""
    found = {job_id: backend.run(backend.verbs.get(job_id)) for job_id in dict.fromkeys(job_ids)}
    return {job_id: job for job_id, job in found.items() if job is not None}


def ends_named_by(wanted: Wanted, backend: Backend, job_id: str) -> frozenset[str]:
    """Return the ends of the ids of the incidents that the errors of a job name; none where it is not there."""
    try:
        job = find_job(wanted, backend, job_id)
    except JobNotFoundError:
        return frozenset()
    errors = [job.error, *(each.error for each in backend.run(backend.verbs.history(job.id)))]
    return frozenset(filter(None, map(named_in, errors)))


def find_incident(wanted: Wanted, backend: Backend, incidents: Sequence[Incident], incident_id: str) -> Incident:
    """Return the incident with this id, or the one whose id ends so."""
    end = incident_id.lower()
    matches = [each for each in incidents if each.id == incident_id] or [
        each for each in incidents if len(end) >= _SHORTEST_END and each.id.endswith(end)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(match.id for match in matches)
        raise IncidentNotFoundError(
            f"'{incident_id}' is the end of {len(matches)} ids, give more of the one meant: {ids}"
        )
    raise IncidentNotFoundError(_nowhere(wanted, backend, incident_id))


def _nowhere(wanted: Wanted, backend: Backend, incident_id: str) -> str:
    if backend.run(backend.verbs.get(incident_id)) is not None:
        return (
            f"'{incident_id}' is a job, not an incident: `standfast incidents list --job {short_id(incident_id)}`"
            f" lists those in which it was involved, and `standfast jobs show {short_id(incident_id)}` tells of it"
        )
    return (
        f"there is no incident '{incident_id}' in {wanted.place}: it may be in another (--url, --namespace), or be"
        " forgotten (keep_incidents, keep_incidents_for); `standfast incidents list` shows the ids (the end of one,"
        f" {_SHORTEST_END} characters or more, will do)"
    )


def read_since(option: str, text: str | None, tz: str | None) -> datetime | None:
    """Return the moment that a text means: a span back from now, as 12h, or a date."""
    if text is None:
        return None
    zone: tzinfo | None = None if tz is None else find_zone(tz)
    try:
        return SystemClock().now() - read_span(text)
    except ValueError:
        return read_moment(option, text, zone, otherwise=", or how long ago, e.g. 12h or 2d")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which incidents are wanted; what is empty or None selects all."""

    troubles: tuple[Trouble, ...] = ()
    since: datetime | None = None
    job: str | None = None
    task: str | None = None
    ends: frozenset[str] = frozenset()
    """Of ids that the errors of that job name."""

    def __call__(self, incident: Incident) -> bool:
        """Tell whether an incident is one of them."""
        return (
            (not self.troubles or incident.trouble in self.troubles)
            and (self.since is None or incident.last_at >= self.since)
            and (self.job is None or self._involves(incident, self.job))
            and (self.task is None or any(job.task == self.task for job in incident.jobs))
        )

    def _involves(self, incident: Incident, job_id: str) -> bool:
        return short_id(incident.id) in self.ends or any(_is_meant(job, job_id) for job in incident.jobs)


def check_end(_ctx: click.Context, _parameter: click.Parameter, job_id: str | None) -> str | None:
    """Refuse an id of which too little is given."""
    if job_id is not None and len(job_id) < _SHORTEST_END:
        raise click.BadParameter(
            f"'{job_id}' is too short for an id; give its last {_SHORTEST_END} characters or more"
        )
    return job_id


def _is_meant(job: InvolvedJob, job_id: str) -> bool:
    return job.job_id.endswith(job_id.lower())
