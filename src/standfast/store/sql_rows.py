"""From rows to the values that others see, as far as both SQL stores keep them alike."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from standfast.core.crash import group_limit
from standfast.core.job import Attempt, Job, JobAction, OnLate, Progress
from standfast.core.record import Decision, Fire, FireCause, Kind, Record
from standfast.core.states import State
from standfast.store.protocol import WorkerInfo
from standfast.store.times import from_micros, from_micros_or_none, span_from_micros
from standfast.store.unreadable import DAMAGES, unreadable_job

Row = Sequence[Any]

MANY = {
    JobAction.RETRY: ("revive_many", "make_many_due"),
    JobAction.CANCEL: ("ask_many_to_cancel", "withdraw_many"),
    JobAction.DISCARD: ("discard_many",),
    JobAction.RESCHEDULE: ("reschedule_many",),
}
"""The statements that do something to many jobs; each tells to which."""

NO_METADATA: Mapping[str, str] = MappingProxyType({})
"""Shared by all that have none."""


def read_metadata(text: str) -> Mapping[str, str]:
    """Return metadata as they were written."""
    metadata: Mapping[str, str] = json.loads(text)
    if not isinstance(metadata, dict):
        raise ValueError("its metadata are no JSON object")  # noqa: TRY004 - as JSON that is none
    return metadata


def to_job(row: Row, read_tags: Callable[[Any], Iterable[str]] = tuple) -> Job:
    """Return the job that `job_columns` tell of; `read_tags` is for tags that are not stored as a list."""
    try:
        return _to_job(row, read_tags)
    except DAMAGES as error:
        return _unreadable_job(row, error)


_SAID = (
    "task",
    "version",
    "queue",
    "priority",
    "state",
    "reason",
    "run_at",
    "created_at",
    "finished_at",
    "fence",
    "attempt",
    "crashes",
    "max_attempts",
    "group",
    "cancel_requested",
    "worker",
    "payload",
    "result",
    "error",
)
"""What the columns of a job tell first, after its id."""


def _unreadable_job(row: Row, error: Exception) -> Job:
    id_, *values = row
    said = dict(zip(_SAID, values, strict=False))
    said["state"] = State(said["state"]) if said["state"] in set(State) else None
    for name in ("run_at", "created_at", "finished_at"):
        said[name] = from_micros(said[name]) if isinstance(said[name], int) else None
    return unreadable_job(id_, said, error)


def _to_job(row: Row, read_tags: Callable[[Any], Iterable[str]]) -> Job:
    id_, task, version, queue, priority, state, reason, run_at, created_at, finished_at, *rest = row
    fence, attempt, crashes, max_attempts, group, cancel_requested, worker, payload, result, error, *rest = rest
    done, total, note, key, tags, metadata, start_by, on_late, after, result_until, keep_key = rest
    if bytes in set(map(type, (id_, task, queue, reason, worker, error, note, key))):
        raise ValueError("a text of it is none")
    return Job(
        id=id_,
        task=task,
        version=version,
        queue=queue,
        priority=priority,
        state=State(state),
        reason=reason,
        run_at=from_micros(run_at),
        created_at=from_micros(created_at),
        finished_at=from_micros_or_none(finished_at),
        fence=fence,
        attempt=attempt,
        crashes=crashes,
        max_attempts=max_attempts,
        group=group_limit(group),
        cancel_requested=bool(cancel_requested),
        worker=worker,
        payload=payload,
        result=result,
        error=error,
        progress=to_progress(done, total, note),
        key=key,
        tags=() if tags is None else tuple(read_tags(tags)),
        metadata=NO_METADATA if metadata is None else read_metadata(metadata),
        start_by=from_micros_or_none(start_by),
        on_late=OnLate.RUN if on_late is None else OnLate(on_late),
        after=after,
        result_until=from_micros_or_none(result_until),
        keep_key=span_from_micros(keep_key),
    )


def to_progress(done: float | None, total: float | None, note: str | None) -> Progress | None:
    """Return how far a job is, if it has said so."""
    return None if done is None else Progress(done, total, note)


def to_worker_info(row: Row, read_queues: Callable[[Any], Iterable[str]] = tuple) -> WorkerInfo:
    """Return what a worker said of itself; `read_queues` is for queues that are not stored as a list."""
    id_, supervisor, host, pid, lease, queues, concurrency = row
    served = None if queues is None else tuple(read_queues(queues))
    return WorkerInfo(id_, supervisor, host, pid, span_from_micros(lease), served, concurrency)


def to_attempt(row: Row) -> Attempt:
    """Return the claim that a row of the history tells of."""
    fence, worker, started_at, ended_at, *story = row
    return Attempt(fence, worker, from_micros_or_none(started_at), from_micros_or_none(ended_at), *story)


def to_record(row: Row) -> Record:
    """Return the record that a row tells of."""
    kind, name, version, due_at, body, token = row
    return Record(Kind(kind), name, version, from_micros_or_none(due_at), body, token)


def to_fire(row: Row) -> Fire:
    """Return the fire that a row tells of."""
    schedule, planned, decision, cause, count, until, job_id, note, decided_at = row
    return Fire(
        schedule=schedule,
        planned=from_micros(planned),
        decision=Decision(decision),
        cause=FireCause(cause),
        count=count,
        until=from_micros_or_none(until),
        job_id=job_id,
        note=note,
        decided_at=from_micros(decided_at),
    )
