"""From rows to the values that others see."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from holdfast.core.job import Attempt, Claim, ClaimRef, Glance, Job, OnLate, Progress
from holdfast.core.record import Cause, Decision, Fire, Kind, Record
from holdfast.core.states import State
from holdfast.store.protocol import Worker, WorkerInfo
from holdfast.store.sqlite.lease import Lease
from holdfast.store.times import from_micros, from_micros_or_none, span_from_micros

Row = Sequence[Any]

# Claims are made in the hot path: those without metadata share one mapping, and an enum's members are slow to get.
_NO_METADATA: Mapping[str, str] = MappingProxyType({})
_RUN = OnLate.RUN

_BY_TIME = (State.READY, State.SCHEDULED)


def to_claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the claims that `claim_columns` tell of, in the order of the rows."""
    return [
        Claim(
            ClaimRef(id_, fence),
            task,
            version,
            payload,
            queue,
            -rank,
            from_micros(run_at),
            attempt,
            crashes,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            _NO_METADATA if metadata is None else json.loads(metadata),
        )
        for (
            rank,
            run_at,
            _,
            id_,
            fence,
            task,
            version,
            payload,
            queue,
            attempt,
            crashes,
            max_attempts,
            start_by,
            on_late,
            metadata,
        ) in rows
    ]


def shown_state(state: str, run_at: datetime, now: datetime) -> State:
    """Return the state that people see: what waits for its time only is ready once that has come."""
    stored = State(state)
    if stored not in _BY_TIME:
        return stored
    return State.READY if run_at <= now else State.SCHEDULED


def to_job(row: Row, now: datetime) -> Job:
    """Return the job that `job_columns` tell of."""
    id_, task, version, queue, priority, state, reason, run_at, created_at, finished_at, *rest = row
    fence, attempt, crashes, max_attempts, alone, cancel_requested, worker, payload, result, error, *rest = rest
    done, total, key, tags, metadata, start_by, on_late, after, until_micros = rest
    due_at, result_until = from_micros(run_at), from_micros_or_none(until_micros)
    return Job(
        id=id_,
        task=task,
        version=version,
        queue=queue,
        priority=priority,
        state=shown_state(state, due_at, now),
        reason=reason,
        run_at=due_at,
        created_at=from_micros(created_at),
        finished_at=from_micros_or_none(finished_at),
        fence=fence,
        attempt=attempt,
        crashes=crashes,
        max_attempts=max_attempts,
        alone=bool(alone),
        cancel_requested=bool(cancel_requested),
        worker=worker,
        payload=payload,
        result=None if result_until is not None and result_until <= now else result,
        error=error,
        progress=None if done is None else Progress(done, total),
        key=key,
        tags=() if tags is None else tuple(json.loads(tags)),
        metadata=_NO_METADATA if metadata is None else json.loads(metadata),
        start_by=from_micros_or_none(start_by),
        on_late=_RUN if on_late is None else OnLate(on_late),
        after=after,
        result_until=result_until,
    )


def to_attempt(row: Row) -> Attempt:
    """Return the ended claim that `attempts` selects."""
    fence, worker, started_at, ended_at, *story = row
    return Attempt(fence, worker, from_micros_or_none(started_at), from_micros_or_none(ended_at), *story)


def to_glance(row: Row, now: datetime) -> Glance:
    """Return the glance at the state, run_at and progress that `glance` selects."""
    state, run_at, done, total = row
    return Glance(shown_state(state, from_micros(run_at), now), None if done is None else Progress(done, total))


def to_record(row: Row) -> Record:
    """Return the record that `record_columns` tell of."""
    kind, name, version, due_at, body, token = row
    return Record(Kind(kind), name, version, from_micros_or_none(due_at), body, token)


def to_fire(row: Row) -> Fire:
    """Return the fire that `fire_columns` tell of."""
    schedule, planned, decision, cause, count, until_at, job_id, note, decided_at = row
    return Fire(
        schedule=schedule,
        planned=from_micros(planned),
        decision=Decision(decision),
        cause=Cause(cause),
        count=count,
        until=from_micros_or_none(until_at),
        job_id=job_id,
        note=note,
        decided_at=from_micros(decided_at),
    )


def to_worker(row: Row, boot_at: int, boot_id: str) -> Worker:
    """Return the worker that `workers` selects, seen at a time of the boot clock."""
    id_, supervisor, host, pid, lease, queues, concurrency, started_at, *life, held, running = row
    sign = Lease(id_, lease, *life)
    info = WorkerInfo(
        id=id_,
        supervisor=supervisor,
        host=host,
        pid=pid,
        lease=span_from_micros(lease),
        queues=None if queues is None else tuple(json.loads(queues)),
        concurrency=concurrency,
    )
    age = span_from_micros(sign.age(boot_at, boot_id))
    return Worker(info, from_micros(started_at), age, bool(sign.condemned), held, running)
