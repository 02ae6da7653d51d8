"""From rows to the values that others see. What depends on the time was decided by the statements."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from holdfast.core.job import Attempt, Glance, Job, OnLate, Progress
from holdfast.core.states import State
from holdfast.store.protocol import Worker, WorkerInfo
from holdfast.store.times import from_micros, from_micros_or_none, span_from_micros

Row = Sequence[Any]

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


def to_job(row: Row) -> Job:
    """Return the job that `job_columns` tell of."""
    id_, task, version, queue, priority, state, reason, run_at, created_at, finished_at, *rest = row
    fence, attempt, crashes, max_attempts, alone, cancel_requested, worker, payload, result, error, *rest = rest
    done, total, key, tags, metadata, start_by, on_late, after, result_until = rest
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
        alone=alone,
        cancel_requested=cancel_requested,
        worker=worker,
        payload=payload,
        result=result,
        error=error,
        progress=_progress(done, total),
        key=key,
        tags=tuple(tags or ()),
        metadata=_NO_METADATA if metadata is None else json.loads(metadata),
        start_by=from_micros_or_none(start_by),
        on_late=OnLate.RUN if on_late is None else OnLate(on_late),
        after=after,
        result_until=from_micros_or_none(result_until),
    )


def to_glance(row: Row) -> Glance:
    """Return the glance at the state and progress that `glance` selects."""
    state, done, total = row
    return Glance(State(state), _progress(done, total))


def to_attempt(row: Row) -> Attempt:
    """Return the claim that `history` selects."""
    fence, worker, started_at, ended_at, *story = row
    return Attempt(fence, worker, from_micros_or_none(started_at), from_micros_or_none(ended_at), *story)


def to_worker(row: Row) -> Worker:
    """Return the worker that `worker_rows` select."""
    _, id_, supervisor, host, pid, lease, queues, concurrency, started_at, beat_age, condemned, held, running = row
    info = WorkerInfo(
        id=id_,
        supervisor=supervisor,
        host=host,
        pid=pid,
        lease=span_from_micros(lease),
        queues=None if queues is None else tuple(queues),
        concurrency=concurrency,
    )
    return Worker(info, from_micros(started_at), span_from_micros(beat_age), condemned, held, running)


def _progress(done: float | None, total: float | None) -> Progress | None:
    return None if done is None else Progress(done, total)
