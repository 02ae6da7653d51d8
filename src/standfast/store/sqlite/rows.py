"""From rows to the values that others see."""

import json
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from standfast.core.job import Claim, ClaimRef, Glance, Job, OnLate
from standfast.core.states import State
from standfast.core.vitals import read_vitals
from standfast.store import sql_rows
from standfast.store.protocol import Worker
from standfast.store.sql_rows import NO_METADATA, Row, read_metadata
from standfast.store.sqlite.lease import Lease
from standfast.store.times import from_micros, span_from_micros, span_to_micros
from standfast.store.unreadable import DAMAGES, read_each, unreadable_claim

# Claims are made in the hot path, and an enum's members are slow to get.
_RUN = OnLate.RUN

_BY_TIME = (State.READY, State.SCHEDULED)


def to_claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the claims that `claim_columns` tell of, in the order of the rows."""
    try:
        return _to_claims(rows)
    except DAMAGES:
        return read_each(_to_claims, rows, _unreadable)


def _unreadable(row: Row, error: Exception) -> Claim:
    _, _, _, job_id, fence, _, _, _, queue, *_ = row
    return unreadable_claim(job_id, fence, queue, error)


def _to_claims(rows: Sequence[Row]) -> list[Claim]:
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
            NO_METADATA if metadata is None else read_metadata(metadata),
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


def state_of(state: str, run_at: int, now: datetime) -> State:
    """Return the same of a row that may hold anything: without a state it is dead, without a time never due."""
    try:
        return shown_state(state, from_micros(run_at), now)
    except DAMAGES:
        return State(state) if state in set(State) else State.DEAD


def to_job(row: Row, now: datetime) -> Job:
    """Return the job that `job_columns` tell of, as it is by now."""
    job = sql_rows.to_job(row, json.loads)
    is_gone = job.result_until is not None and job.result_until <= now
    return replace(job, state=shown_state(job.state, job.run_at, now), result=None if is_gone else job.result)


def to_glance(row: Row, now: datetime) -> Glance:
    """Return the glance at the state, run_at and progress that `glance` selects."""
    state, run_at, *progress = row
    return Glance(state_of(state, run_at, now), sql_rows.to_progress(*progress))


def read_list(text: str) -> list[str]:
    """Return the names in a JSON array; none where it is no such thing."""
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def to_worker(row: Row, boot_at: int, boot_id: str) -> Worker:
    """Return the worker that `workers` selects, seen at a time of the boot clock."""
    *who, started_at, beat_at, boot_id_then, condemned, held, running, vitals = row
    info = sql_rows.to_worker_info(who, read_list)
    sign = Lease(info.id, span_to_micros(info.lease), beat_at, boot_id_then, condemned)
    age = span_from_micros(sign.age(boot_at, boot_id))
    return Worker(info, from_micros(started_at), age, bool(condemned), held, running, read_vitals(vitals))
