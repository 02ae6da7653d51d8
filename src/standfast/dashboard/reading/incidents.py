"""Incidents, and their evidence."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from standfast.core.incident import Incident
from standfast.core.states import State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.moments import past
from standfast.dashboard.reading.shown import texts_seen
from standfast.dashboard.shapes.incidents import (
    IncidentRow,
    IncidentsAsked,
    IncidentSeen,
    IncidentsSeen,
    InvolvedSeen,
)
from standfast.dashboard.shapes.words import WithId
from standfast.errors import IncidentNotFoundError
from standfast.incidents.book import list_incidents, read_evidence
from standfast.incidents.health import trouble_words
from standfast.phrases import Phrase
from standfast.store.protocol import ask_time

_SHORTEST_END = 6


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
                task=each.task or (found[each.job_id].task if each.job_id in found else ""),
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
async def list_all(desk: Desk, asked: IncidentsAsked) -> IncidentsSeen:
    """List incidents, those that happened last first."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    since = past("since", asked.since, now, days=True)
    kept = [
        each
        for each in await desk.ask(list_incidents(desk.verbs))
        if asked.trouble in {None, each.trouble}
        and (since is None or each.last_at >= since)
        and (not asked.job or any(job.job_id == asked.job for job in each.jobs))
        and (not asked.task or any(job.task == asked.task for job in each.jobs))
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


@reads("incidents.show", "/incidents/{id}")
async def show_one(desk: Desk, asked: WithId) -> IncidentSeen:
    """Show an incident with its evidence. The last characters of an id will do."""
    incident = await find_incident(desk, asked.id)
    evidence = await desk.ask(read_evidence(desk.verbs, incident.id))
    return IncidentSeen(
        now=(await desk.ask(ask_time(desk.verbs))).now,
        row=incident_row(incident, await jobs_of(desk, [incident])),
        folder=incident.folder,
        evidence=texts_seen(evidence.parts),
    )


async def find_incident(desk: Desk, incident_id: str) -> Incident:
    """Return the incident with this id, or the only one whose id ends so. Raises IncidentNotFoundError."""
    incidents = await desk.ask(list_incidents(desk.verbs))
    end = incident_id.lower()
    matches = [each for each in incidents if each.id == incident_id] or [
        each for each in incidents if len(end) >= _SHORTEST_END and each.id.endswith(end)
    ]
    if len(matches) != 1:
        raise IncidentNotFoundError(Phrase("refusal.no_incident", incident=incident_id))
    return matches[0]


async def jobs_of(desk: Desk, incidents: Iterable[Incident]) -> dict[str, KnownJob]:
    """Return what is known of those jobs of incidents that still exist."""
    tasks = {job.job_id: job.task for incident in incidents for job in incident.jobs}
    states = await desk.ask(desk.verbs.glance(list(tasks))) if tasks else {}
    unnamed = [job_id for job_id in states if not tasks[job_id]]
    named = await asyncio.gather(*(desk.ask(desk.verbs.get(job_id)) for job_id in unnamed))
    tasks |= {job.id: job.task for job in named if job is not None}
    return {job_id: KnownJob(tasks[job_id], glance.state) for job_id, glance in states.items()}
