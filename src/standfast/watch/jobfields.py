"""A job and its history as fields, ready for JSON, the bytes decoded; and what it waits for."""

from collections.abc import Sequence
from typing import Any

import msgspec

from standfast.codec import trace_id_in
from standfast.core.crash import had_started
from standfast.core.job import Attempt, Job
from standfast.core.memo import is_suspended, signal_name
from standfast.core.provenance import planned_of, schedule_of, without_provenance
from standfast.core.states import State
from standfast.phrases import Phrase
from standfast.watch.envelope import UNREADABLE, checked, decoded_args

_JOB_FIELDS = tuple(name for name in Job.__struct_fields__ if name not in {"payload", "keep_key"})
_ATTEMPT_FIELDS = tuple(field.name for field in msgspec.structs.fields(Attempt))


def job_fields(job: Job) -> dict[str, Any]:
    """Return everything there is about a job."""
    fields = {name: getattr(job, name) for name in _JOB_FIELDS}
    progress = job.progress
    fields["progress"] = progress and {"done": progress.done, "total": progress.total, "note": progress.note}
    fields["metadata"] = without_provenance(job.metadata)
    fields["schedule"], fields["planned_at"] = schedule_of(job.metadata), planned_of(job.metadata)
    fields["trace_id"] = trace_id_in(job.payload)
    return {**fields, **decoded_args(job.payload), **_decoded_result(job.result)}


def _decoded_result(result: bytes | None) -> dict[str, Any]:
    try:
        return {"result": None if result is None else checked(result)}
    except UNREADABLE as error:
        return {"result": None, "result_error": f"the result cannot be read: {error}"}


def attempt_fields(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return a job's history."""
    return [
        {name: getattr(attempt, name) for name in _ATTEMPT_FIELDS} | {"started": had_started(attempt)}
        for attempt in attempts
    ]


def waits_for(job: Job) -> Phrase | None:
    """Return what a job waits for that has given its slot back: a signal, or a time. None if it has not."""
    if job.state is not State.SCHEDULED or not is_suspended(job.reason):
        return None
    name = signal_name(job.reason)
    return Phrase("waits.time") if name is None else Phrase("waits.signal", name=name)
