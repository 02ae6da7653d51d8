"""Jobs, incidents, locks and workers as rows. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from standfast.core.incident import Incident
from standfast.core.job import Job
from standfast.core.provenance import schedule_of
from standfast.core.states import State
from standfast.dashboard.reading.selecting import group_of
from standfast.dashboard.reading.shown import progress_seen
from standfast.dashboard.shapes.incidents import IncidentRow, InvolvedSeen
from standfast.dashboard.shapes.jobs import JobRow
from standfast.dashboard.shapes.locks import HolderSeen, LockSeen
from standfast.dashboard.shapes.workers import WorkerRow
from standfast.incidents.health import trouble_words
from standfast.locks.roll import Roll
from standfast.store.protocol import Worker
from standfast.watch.jobfields import waits_for
from standfast.words import one_line

LONGEST_ERROR = 500
"""Characters of an error in a row."""


def job_row(job: Job) -> JobRow:
    """Return a job in short."""
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        reason=job.reason,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        at=job.finished_at or job.run_at,
        run_at=job.run_at,
        created_at=job.created_at,
        finished_at=job.finished_at,
        worker=job.worker,
        key=job.key,
        tags=job.tags,
        schedule=schedule_of(job.metadata),
        waits_for=waits_for(job),
        cancel_requested=job.cancel_requested,
        progress=progress_seen(job.progress),
        error=one_line(job.error, LONGEST_ERROR) if job.error else None,
        fingerprint=group_of(job) if job.state is State.DEAD else None,
    )


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


def lock_seen(name: str, roll: Roll, session: str | None) -> LockSeen:
    """Return a lock, and who has it."""
    return LockSeen(
        name=name,
        places=roll.places,
        holders=holders_seen(roll),
        session=session,
        waiting=len(roll.line),
        last_token=roll.last_token,
    )


def holders_seen(roll: Roll) -> tuple[HolderSeen, ...]:
    """Return who has a lock."""
    return tuple(
        HolderSeen(owner=each.owner, token=each.token, since=each.since, until=each.until) for each in roll.holders
    )


def worker_row(worker: Worker) -> WorkerRow:
    """Return a worker."""
    info, vitals = worker.info, worker.vitals
    return WorkerRow(
        id=info.id,
        supervisor=info.supervisor,
        host=info.host,
        pid=info.pid,
        queues=info.queues,
        concurrency=info.concurrency,
        lease=info.lease.total_seconds(),
        started_at=worker.started_at,
        beat_age=worker.beat_age.total_seconds(),
        live=worker.is_live,
        condemned=worker.condemned,
        held=worker.held,
        running=worker.running,
        vitals=None if vitals is None else msgspec.structs.asdict(vitals),
    )
