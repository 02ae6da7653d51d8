"""Incidents, and their evidence."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import asdict

from standfast.admin.executor import OperationContext
from standfast.admin.fields import (
    AnswerStruct,
    Limit,
    RequestStruct,
    TextSeen,
    When,
    WithId,
    Word,
    past,
    texts_seen,
    the_one,
)
from standfast.admin.operation import Role, acts, reads
from standfast.errors import IncidentNotFoundError
from standfast.model.display import short_id
from standfast.model.incidents import Incident, InvolvedJob, Trouble
from standfast.model.phrases import Phrase
from standfast.model.states import State
from standfast.observe.incidents import forget_incidents, list_incidents, named_in, read_evidence, trouble_words
from standfast.stores.contract import ask_time


class IncidentsAsked(RequestStruct, frozen=True, kw_only=True):
    """Which incidents: of these kinds, since then, with this job or a job of this task; `before` is the `next`.

    The last characters of a job's id will do.
    """

    trouble: tuple[Trouble, ...] = ()
    since: When | None = None
    job: Word | None = None
    task: Word | None = None
    before: Word | None = None
    limit: Limit = 50


class InvolvedSeen(AnswerStruct, frozen=True, kw_only=True):
    """A job that was running then. `state` is its state now, null where it is forgotten."""

    job: str
    task: str
    fence: int
    attempt: int
    progress: str | None = None
    state: State | None = None


class IncidentRow(AnswerStruct, frozen=True, kw_only=True):
    """An incident in short; `words` says what kind of trouble it was, `more_jobs` how many ran before `jobs`."""

    id: str
    trouble: Trouble
    words: str
    summary: str
    at: datetime
    last_at: datetime
    count: int
    host: str
    worker: str
    supervisor: str
    pid: int
    jobs: tuple[InvolvedSeen, ...]
    more_jobs: int


class IncidentsSeen(AnswerStruct, frozen=True, kw_only=True):
    """Incidents, the last first."""

    now: datetime
    rows: tuple[IncidentRow, ...]
    next: str | None
    total: int


class IncidentSeen(IncidentRow, frozen=True, kw_only=True):
    """An incident with its evidence by name, bounded. `folder` is where its files are, on its host."""

    now: datetime
    folder: str | None
    evidence: dict[str, TextSeen]


class IncidentDone(AnswerStruct, frozen=True, kw_only=True):
    """The incident that was forgotten."""

    id: str


# Incidents, and their evidence.


class KnownJob(NamedTuple):
    """What a row says of a job of an incident."""

    task: str
    state: State


def incident_row(incident: Incident, found: Mapping[str, KnownJob]) -> IncidentRow:
    """Return an incident in short, with what is `found` of its jobs."""
    return IncidentRow(
        id=incident.id,
        trouble=incident.trouble,
        words=trouble_words(incident.trouble),
        summary=incident.summary,
        at=incident.at,
        last_at=incident.last_at,
        count=incident.count,
        host=incident.host,
        worker=incident.worker,
        supervisor=incident.supervisor,
        pid=incident.pid,
        jobs=tuple(
            InvolvedSeen(
                job=each.job_id,
                task=_task_of(each, found),
                fence=each.fence,
                attempt=each.attempt,
                progress=each.progress,
                state=found[each.job_id].state if each.job_id in found else None,
            )
            for each in incident.jobs
        ),
        more_jobs=incident.more_jobs,
    )


@reads("incidents.list", "/incidents")
async def list_all(desk: OperationContext, asked: IncidentsAsked) -> IncidentsSeen:
    """List incidents, those that happened last first."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    since = past("since", asked.since, now, days=True)
    known = await desk.ask(list_incidents(desk.verbs))
    found = await jobs_of(desk, known) if asked.task else {}
    ends = await _named_by(desk, asked.job) if asked.job and any(each.more_jobs for each in known) else frozenset()
    kept = [
        each
        for each in known
        if (not asked.trouble or each.trouble in asked.trouble)
        and (since is None or each.last_at >= since)
        and (not asked.job or short_id(each.id) in ends or _involves(each, asked.job.lower()))
        and (not asked.task or any(_task_of(job, found) == asked.task for job in each.jobs))
    ]
    ids = [each.id for each in kept]
    start = ids.index(asked.before) + 1 if asked.before in ids else 0
    page = kept[start : start + asked.limit]
    found = await jobs_of(desk, page)
    return IncidentsSeen(
        now=now,
        rows=tuple(incident_row(each, found) for each in page),
        next=page[-1].id if page and start + asked.limit < len(kept) else None,
        total=len(kept),
    )


def _involves(incident: Incident, end: str) -> bool:
    return any(job.job_id.endswith(end) for job in incident.jobs)


def _task_of(job: InvolvedJob, found: Mapping[str, KnownJob]) -> str:
    return job.task or (found[job.job_id].task if job.job_id in found else "")


async def _named_by(desk: OperationContext, job_id: str) -> frozenset[str]:
    """Return the ends of the ids of the incidents that the errors of a job name."""
    job = await desk.ask(desk.verbs.get(job_id))
    if job is None:
        return frozenset()
    errors = [job.error, *(each.error for each in await desk.ask(desk.verbs.history(job.id)))]
    return frozenset(filter(None, map(named_in, errors)))


@reads("incidents.show", "/incidents/{id}")
async def show_one(desk: OperationContext, asked: WithId) -> IncidentSeen:
    """Show an incident with its evidence. The last characters of an id will do."""
    incident = await find_incident(desk, asked.id)
    evidence = await desk.ask(read_evidence(desk.verbs, incident.id))
    return IncidentSeen(
        now=(await desk.ask(ask_time(desk.verbs))).now,
        **asdict(incident_row(incident, await jobs_of(desk, [incident]))),
        folder=incident.folder,
        evidence=texts_seen(evidence.parts),
    )


async def find_incident(desk: OperationContext, incident_id: str) -> Incident:
    """Return the incident with this id, or the only one whose id ends so. Raises IncidentNotFoundError."""
    incidents = {each.id: each for each in await desk.ask(list_incidents(desk.verbs))}
    if (found := the_one(incident_id, incidents)) is not None:
        return incidents[found]
    if incident_id and await desk.ask(desk.verbs.get(incident_id)) is not None:
        raise IncidentNotFoundError(Phrase("refusal.job_not_incident", incident=short_id(incident_id)))
    raise IncidentNotFoundError(Phrase("refusal.no_incident", incident=incident_id))


async def jobs_of(desk: OperationContext, incidents: Iterable[Incident]) -> dict[str, KnownJob]:
    """Return what is known of those jobs of incidents that still exist."""
    tasks = {job.job_id: job.task for incident in incidents for job in incident.jobs}
    states = await desk.ask(desk.verbs.glance(list(tasks))) if tasks else {}
    unnamed = [job_id for job_id in states if not tasks[job_id]]
    named = await asyncio.gather(*(desk.ask(desk.verbs.get(job_id)) for job_id in unnamed))
    tasks |= {job.id: job.task for job in named if job is not None}
    return {job_id: KnownJob(tasks[job_id], glance.state) for job_id, glance in states.items()}


# Incidents that a person has read, and wants to see no more.


@acts("incidents.forget", "/incidents/{id}/forget", Role.ADMIN)
async def forget_incident(desk: OperationContext, asked: WithId) -> IncidentDone:
    """Forget an incident and its evidence in the store."""
    incident = await find_incident(desk, asked.id)
    desk.note(before=incident.summary)
    await desk.ask(forget_incidents(desk.verbs, (incident.id,)))
    desk.note(after=Phrase("noted.forgotten"))
    return IncidentDone(id=incident.id)
