"""Finding the job that a person means by its id, or by the end of it as workers and narrow tables show it."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import islice

import click
from msgspec.structs import replace

from standfast.admin.job_search import AT_ONCE
from standfast.cli.connection import StoreOptions
from standfast.cli.inputs import read_moment
from standfast.errors import IncidentNotFoundError, JobNotFoundError
from standfast.model.clock import SystemClock
from standfast.model.display import one_line, short_id
from standfast.model.ids import new_job_id
from standfast.model.incidents import Incident, InvolvedJob, Trouble
from standfast.model.job import Job
from standfast.model.records import Kind
from standfast.model.suggestions import closest_name
from standfast.model.validation import read_span
from standfast.observe.catalogue import read_catalogue
from standfast.observe.incidents import list_incidents, named_in
from standfast.schedules.zones import find_zone
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
    while page := backend.run(backend.verbs.list_jobs(which)):
        yield page
        which = replace(which, before=page[-1].id)


def unknown_names(backend: Backend, queue: str | None, task: str | None) -> str | None:
    """Return which of these names nothing in the store has, as far as that is seen, with the one that was meant."""
    view = run_procedure(backend.run, read_catalogue(backend.verbs))
    seen = backend.run(backend.verbs.list_jobs(JobFilter(limit=_SEEN)))
    queues = {each.name for each in view.queues} | {each.name for each in backend.run(backend.verbs.queues())}
    queues.update(*(each.info.queues or () for each in backend.run(backend.verbs.workers())))
    tasks = {each.task.name for each in view.tasks} | {each.task for each in seen}
    for kind, name, known in (("queue", queue, queues), ("task", task, tasks)):
        if name is not None and name not in known:
            if backend.run(backend.verbs.list_jobs(JobFilter(queue=queue, task=task, limit=1))):
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


# The incidents of a store as commands need them: found by id, selected, with what has become of their jobs.

_SHORTEST_INCIDENT_END = 6


def read_incidents(backend: Backend) -> tuple[Incident, ...]:
    """Return all incidents, the newest first."""
    return run_procedure(backend.run, list_incidents(backend.verbs))


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


def ends_named_by(wanted: StoreOptions, backend: Backend, job_id: str) -> frozenset[str]:
    """Return the ends of the ids of the incidents that the errors of a job name; none where it is not there."""
    try:
        job = find_job(wanted, backend, job_id)
    except JobNotFoundError:
        return frozenset()
    errors = [job.error, *(each.error for each in backend.run(backend.verbs.history(job.id)))]
    return frozenset(filter(None, map(named_in, errors)))


def find_incident(
    wanted: StoreOptions, backend: Backend, incidents: Sequence[Incident], incident_id: str
) -> Incident:
    """Return the incident with this id, or the one whose id ends so."""
    end = incident_id.lower()
    matches = [each for each in incidents if each.id == incident_id] or [
        each for each in incidents if len(end) >= _SHORTEST_INCIDENT_END and each.id.endswith(end)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(match.id for match in matches)
        raise IncidentNotFoundError(
            f"'{incident_id}' is the end of {len(matches)} ids, give more of the one meant: {ids}"
        )
    raise IncidentNotFoundError(_no_such_incident(wanted, backend, incident_id))


def _no_such_incident(wanted: StoreOptions, backend: Backend, incident_id: str) -> str:
    if backend.run(backend.verbs.get(incident_id)) is not None:
        return (
            f"'{incident_id}' is a job, not an incident: `standfast incidents list --job {short_id(incident_id)}`"
            f" lists those in which it was involved, and `standfast jobs show {short_id(incident_id)}` tells of it"
        )
    return (
        f"there is no incident '{incident_id}' in {wanted.place}: it may be in another (--url, --namespace), or be"
        " forgotten (keep_incidents, keep_incidents_for); `standfast incidents list` shows the ids (the end of one,"
        f" {_SHORTEST_INCIDENT_END} characters or more, will do)"
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
    if job_id is not None and len(job_id) < _SHORTEST_INCIDENT_END:
        raise click.BadParameter(
            f"'{job_id}' is too short for an id; give its last {_SHORTEST_INCIDENT_END} characters or more"
        )
    return job_id


def _is_meant(job: InvolvedJob, job_id: str) -> bool:
    return job.job_id.endswith(job_id.lower())
