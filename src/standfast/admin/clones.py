"""New jobs made of others: a clone, and a dead job tried again with other arguments.

The dashboard does not have the code of the app. Arguments are JSON in the stored envelope; where workers have told
of the parameters of the task, names are checked against these. What is secret never leaves the store.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from standfast.admin.executor import OperationContext
from standfast.admin.fields import coming
from standfast.admin.job_details import UNREADABLE, changed_payload, read_envelope
from standfast.admin.jobs import CLONED_FROM, EDITED_FROM, CloneAsked, EditAsked, JobDone, find_job
from standfast.admin.operation import Role, acts
from standfast.admin.tasks import TaskSeen, find_task, secrets_of
from standfast.errors import ArgumentsError, JobStateError, KeyTakenError
from standfast.model.codec import MAX_BYTES
from standfast.model.ids import new_job_id
from standfast.model.job import Job, JobAction, NewJob, OnConflict, without_provenance
from standfast.model.phrases import Phrase
from standfast.model.secrets import MASK
from standfast.model.states import Reason, State
from standfast.model.validation import id_problems, queue_problems, refuse_any
from standfast.stores.contract import ask_time, change_job

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@acts("jobs.clone", "/jobs/{id}/clone", Role.OPERATOR)
async def clone_job(desk: OperationContext, asked: CloneAsked) -> JobDone:
    """Enqueue a new job like this one, with other arguments, queue or time if these are given."""
    job = await find_job(desk, asked.id)
    new_id = asked.new_id or new_job_id()
    refuse_any([*id_problems(new_id), *(queue_problems(asked.queue) if asked.queue else ())])
    payload = job.payload if asked.args is None else await _changed(desk, job, asked.args)
    copy = NewJob(
        id=new_id,
        task=job.task,
        payload=payload,
        version=job.version,
        queue=asked.queue or job.queue,
        priority=job.priority if asked.priority is None else asked.priority,
        run_at=coming("at", asked.at, (await desk.ask(ask_time(desk.verbs))).now),
        max_attempts=job.max_attempts,
        start_within=_start_within(job),
        on_late=job.on_late,
        tags=job.tags,
        metadata=_metadata(job, CLONED_FROM),
    )
    await desk.ask(desk.verbs.enqueue([copy]))
    desk.note(after=Phrase("noted.job", job=new_id))
    return JobDone(id=job.id, answer="cloned", job=new_id)


@acts("jobs.edit_and_retry", "/jobs/{id}/edit_and_retry", Role.ADMIN)
async def edit_and_retry(desk: OperationContext, asked: EditAsked) -> JobDone:
    """Try a dead job again with other arguments, as a new job; the dead one is discarded.

    Both in one step, so that of all who decide about a dead job at the same time one does. The new one has an id
    that is the same however often this is repeated: after a lost answer it tells that this was done.
    """
    job = await find_job(desk, asked.id)
    payload = await _changed(desk, job, asked.args)
    copy = NewJob(
        id=_id_of_copy(job),
        task=job.task,
        payload=payload,
        version=job.version,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        key=job.key,
        on_conflict=OnConflict.RAISE,
        keep_key=job.keep_key,
        start_within=_start_within(job),
        on_late=job.on_late,
        tags=job.tags,
        metadata=_metadata(job, EDITED_FROM),
    )
    try:
        await _supersede(desk, job, copy)
    except JobStateError:
        await _refuse_unless_done(desk, job, copy)
    desk.note(before=_names(job.payload), after=Phrase("noted.job_with", job=copy.id, names=_names(payload)))
    return JobDone(id=job.id, answer="edited", job=copy.id)


async def _supersede(desk: OperationContext, job: Job, copy: NewJob) -> None:
    """Put a copy in the place of a dead job, with its key, if that is free."""
    try:
        await desk.ask(change_job(desk.verbs, JobAction.DISCARD, job.id, instead=copy))
    except KeyTakenError:
        without_key = msgspec.structs.replace(copy, key=None, keep_key=timedelta())
        await desk.ask(change_job(desk.verbs, JobAction.DISCARD, job.id, instead=without_key))


def _start_within(job: Job) -> timedelta | None:
    """Return how soon after its time a job should have started; its time may have been moved since, by a retry."""
    if job.start_by is None:
        return None
    since = job.run_at if job.run_at <= job.start_by and job.attempt <= 1 else job.created_at
    return max(job.start_by - since, timedelta.resolution)


async def _refuse_unless_done(desk: OperationContext, job: Job, copy: NewJob) -> None:
    """Raise JobStateError, unless this very copy is in the place of the job already."""
    job = await find_job(desk, job.id)
    discarded = job.state is State.CANCELLED and job.reason == Reason.DISCARDED
    stored = await desk.ask(desk.verbs.get(copy.id)) if discarded else None
    if stored is None:
        raise JobStateError(Phrase("refusal.not_dead", job=job.id, state=Phrase(f"state.{job.state}")))
    if stored.payload != copy.payload:
        raise JobStateError(Phrase("refusal.edited", job=job.id, copy=copy.id))


async def _changed(desk: OperationContext, job: Job, given: Mapping[str, Any]) -> bytes:
    """Return the payload with these arguments. Raises ArgumentsError."""
    task = await find_task(desk, job.task)
    _check_names(task, job, given)
    encoded = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in given.items()}
    payload = changed_payload(job.payload, encoded, whole=True, secrets=secrets_of(task))
    try:
        read_envelope(payload)
    except UNREADABLE as error:
        raise ArgumentsError(f"the arguments could not be read again: {error}") from error
    if len(payload) > MAX_BYTES:
        raise ArgumentsError(Phrase("refusal.long_arguments", size=f"{len(payload):,}", most=f"{MAX_BYTES:,}"))
    return payload


def _check_names(task: TaskSeen | None, job: Job, given: Mapping[str, Any]) -> None:
    secret = _secret_names(job.payload)
    masked = [name for name, value in given.items() if value == MASK and name not in secret]
    if masked:
        raise ArgumentsError(Phrase("refusal.mask", names=_quoted(masked)))
    if task is None or task.version != job.version:
        return
    known = {parameter.name: parameter for parameter in task.parameters}
    if extra := given.keys() - known.keys() - secret:
        takes = _quoted(known) or Phrase("refusal.nothing")
        raise ArgumentsError(Phrase("refusal.no_parameter", task=job.task, names=_quoted(extra), takes=takes))
    required = {name for name, parameter in known.items() if parameter.required}
    if missing := required - given.keys() - secret:
        raise ArgumentsError(Phrase("refusal.missing", task=job.task, names=_quoted(missing)))


def _secret_names(payload: bytes) -> frozenset[str]:
    try:
        return frozenset(read_envelope(payload).secret)
    except UNREADABLE:
        return frozenset()


def _id_of_copy(job: Job) -> str:
    """Return the id of the corrected copy of a dead job: each death of it has one of its own, always the same."""
    at = job.finished_at or job.created_at
    told = blake2b(f"{job.id}/{job.fence}".encode(), digest_size=10).digest()
    random = int.from_bytes(told)
    millisecond = int((at - _EPOCH).total_seconds() * 1000)
    return str(
        UUID(int=millisecond << 80 | 7 << 76 | (random >> 62 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1)
    )


def _metadata(job: Job, where: str) -> dict[str, str]:
    told = without_provenance(job.metadata)
    return {
        **{name: value for name, value in told.items() if name not in {EDITED_FROM, CLONED_FROM}},
        where: job.id,
    }


def _names(payload: bytes) -> Phrase | str:
    """Return the names of arguments, for those who ask who changed them; the values may concern nobody."""
    try:
        envelope = read_envelope(payload)
    except UNREADABLE:
        return Phrase("noted.unreadable")
    return ", ".join([*envelope.args, *envelope.secret]) or Phrase("noted.no_arguments")


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))
