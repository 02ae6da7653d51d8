"""One job, with all that is known of it, and what can be done with it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from standfast.admin.executor import OperationContext, all_queues, late_incidents, store_now
from standfast.admin.fields import (
    AnswerStruct,
    Arguments,
    CursorSeen,
    FileSeen,
    NewId,
    QueueName,
    SignalSeen,
    StepSeen,
    TextSeen,
    ValueSeen,
    WaitSeen,
    When,
    WithId,
    Word,
    args_seen,
    coming,
    text_seen,
    value_seen,
    written_seen,
)
from standfast.admin.incidents import IncidentRow, KnownJob, incident_row
from standfast.admin.job_details import JobDetails, incidents_by_job, read_job_details
from standfast.admin.job_search import (
    SPAN,
    BulkAction,
    CountAsked,
    JobRow,
    JobsAsked,
    JobsCounted,
    JobsSeen,
    JobsWhich,
    Selection,
    job_row,
    page_of,
    pages_of,
    select,
)
from standfast.admin.locks import LockSeen, all_locks
from standfast.admin.operation import Role, WrongRequestError, acts, reads
from standfast.admin.tasks import ParameterSeen, find_task, known_tasks
from standfast.errors import JobNotFoundError, JobStateError
from standfast.handle import encode_signal, too_late
from standfast.model.crash import had_started
from standfast.model.ids import first_id_at, new_job_id
from standfast.model.job import ACTS_ON, Attempt, Cancellation, Job, JobAction, OnLate, without_provenance
from standfast.model.memos import is_suspended, signal_name
from standfast.model.phrases import Phrase
from standfast.model.states import FINAL, State
from standfast.observe.obstacles import Explanation
from standfast.stores.contract import ask_time, change_job
from standfast.stores.values import JobFilter
from standfast.supervisor.orders import KILL, Order, give_order


class WhichJob(WithId, frozen=True, kw_only=True):
    """A job, by its id or by the last characters of it."""


class CancelAsked(WhichJob, frozen=True, kw_only=True):
    """Which job to cancel; with `kill` one that runs in a process of its own is ended with it."""

    kill: bool = False


class AttemptSeen(AnswerStruct, frozen=True, kw_only=True):
    """One claim of a job. `took` is in seconds; `how` is null while it lasts.

    Of a long history the claims between the first and the last are counted by how they ended: `folded` is 0, or how
    many of them this stands for.
    """

    fence: int
    worker: str
    started: bool
    started_at: datetime | None
    ended_at: datetime | None
    took: float | None
    how: str | None
    error: str | None
    traceback: TextSeen | None
    log: TextSeen | None
    folded: int = 0


class Station(AnswerStruct, frozen=True, kw_only=True):
    """One point in the life of a job.

    `what` is enqueued, due, started, or how a claim ended, or the state in which it ended, or now; or folded, of
    claims that are not told one by one: `detail` says how many.
    """

    at: datetime
    what: str
    fence: int | None = None
    worker: str | None = None
    detail: str | None = None


class WhySeen(AnswerStruct, frozen=True, kw_only=True):
    """Why a job is where it is."""

    cause: str
    says: Phrase
    remedy: Phrase | None
    notes: tuple[Phrase, ...]
    text: str


class JobSeen(JobRow, frozen=True, kw_only=True):
    """A job with its story; its `error` is whole. `can` names the operations that make sense in its state.

    `parameters` are those of its task, where workers have told of them; `edited_from` is the dead job of which it
    is the corrected copy. `trace_id` is that of the trace that it carries.
    """

    now: datetime
    version: int
    payload_size: int
    crashes: int
    group: int
    after: str | None
    start_by: datetime | None
    on_late: OnLate
    metadata: dict[str, str]
    args: dict[str, ValueSeen]
    args_problem: Phrase | None
    result_until: datetime | None
    attempts: tuple[AttemptSeen, ...]
    timeline: tuple[Station, ...]
    why: WhySeen
    cursors: tuple[CursorSeen, ...]
    steps: tuple[StepSeen, ...]
    waits: tuple[WaitSeen, ...]
    signals: tuple[SignalSeen, ...]
    files: tuple[FileSeen, ...]
    unreadable: tuple[str, ...]
    locks: tuple[LockSeen, ...]
    incident_rows: tuple[IncidentRow, ...]
    forgotten_incidents: tuple[str, ...]
    can: tuple[str, ...]
    parameters: tuple[ParameterSeen, ...] | None = None
    edited_from: str | None = None
    cloned_from: str | None = None


class JobDone(AnswerStruct, frozen=True, kw_only=True):
    """What became of a job; `job` is the new one, where there is one.

    With `order` the `worker` was ordered to kill the process in which it runs.
    """

    id: str
    answer: str
    job: str | None = None
    worker: str | None = None
    order: str | None = None


class SignalDone(JobDone, frozen=True, kw_only=True):
    """A signal that was sent, whether the job waited for it, and for which signal it had waited, if for any."""

    waited: bool
    waits_for: str | None


class RescheduleAsked(WithId, frozen=True, kw_only=True):
    """When a job is to run: a date with its zone, or a span from now, such as 2h."""

    at: When


class SignalAsked(WithId, frozen=True, kw_only=True):
    """Which signal to send, and what with it. With a `token` a repetition is the same signal."""

    name: Word
    data: Any = None
    token: Word | None = None


class CloneAsked(WithId, frozen=True, kw_only=True):
    """A new job like this one, but for what is said here. Secret arguments that are not given are kept.

    `args` are all arguments that are not secret; null leaves them as they are. `new_id`, a UUIDv7 made by whoever
    asks, makes a repetition harmless.
    """

    args: Arguments | None = None
    queue: QueueName | None = None
    at: When | None = None
    priority: Annotated[int, msgspec.Meta(ge=-32_768, le=32_767)] | None = None
    new_id: NewId | None = None


class EditAsked(WithId, frozen=True, kw_only=True):
    """A dead job is to be tried again with these arguments; masked secrets that stay keep their stored value."""

    args: Arguments


# Finding the job that is meant by its id, or by the last characters of it, as pages and logs show them.

_SHORTEST = 6
_FULL = len(new_job_id())
_MOST = 10
"""So many jobs whose ids end alike are told."""


async def find_job(desk: OperationContext, job_id: str) -> Job:
    """Return the job with this id, or the one among the newest whose id ends so. Raises JobNotFoundError."""
    job = await desk.ask(desk.verbs.get(job_id))
    if job is not None:
        return job
    matches = await _ending_with(desk, job_id.lower()) if _SHORTEST <= len(job_id) < _FULL else ()
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(match.id for match in matches)
        raise JobNotFoundError(Phrase("refusal.several_jobs", end=job_id, count=len(matches), ids=ids))
    raise JobNotFoundError(Phrase("refusal.no_job", job=job_id))


async def _ending_with(desk: OperationContext, end: str) -> tuple[Job, ...]:
    selection = Selection(JobFilter(), await store_now(desk), lambda job: job.id.endswith(end))
    return (await page_of(desk, selection, _MOST)).jobs


# Lists of jobs: a page of them, and how many there are.

MOST_COUNTED = 3_000
"""So many jobs are counted one by one: somebody waits for it."""

MOST_LOOKS = 4
"""So often a look for jobs to count ends before a page of them was found."""


_AT_LEAST = "+"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (1 << 128) - 1


@reads("jobs.list", "/jobs")
async def list_jobs(desk: OperationContext, asked: JobsAsked) -> JobsSeen:
    """List jobs, newest first."""
    selection = await select(desk, asked)
    found = await page_of(desk, selection.below(asked.before or None), asked.limit)
    queues = await all_queues(desk)
    sifted = selection.wanted is not None
    dead = {job.id: [job.error] for job in found.jobs if selection.which.states == (State.DEAD,)}
    incidents = incidents_by_job(dead, await late_incidents(desk)) if dead else {}
    return JobsSeen(
        now=selection.now,
        rows=tuple(job_row(job, incidents.get(job.id, ())) for job in found.jobs),
        next=found.next,
        span=SPAN if sifted else None,
        bounded=found.bounded,
        tasks=tuple(sorted({task.name for task in await known_tasks(desk)} | {job.task for job in found.jobs})),
        queues=tuple(queue.name for queue in queues),
    )


@reads("jobs.count", "/jobs/count")
async def count_jobs(desk: OperationContext, asked: CountAsked) -> JobsCounted:
    """Count jobs, and say what confirms that something is done to all of them."""
    among = None if asked.action is None else ACTS_ON[JobAction(asked.action)]
    selection = await select(desk, asked, among)
    upper = max(first_id_at(selection.now), new_job_id(), await _after_the_newest(desk))
    count, more = await _count(desk, selection)
    now = (await desk.ask(ask_time(desk.verbs))).now
    return JobsCounted(
        count=count,
        more=more,
        span=None if selection.wanted is None else SPAN,
        confirm=confirmation(asked, asked.action, count, f"{upper}.{to_micros(now)}{_AT_LEAST if more else ''}"),
    )


async def _after_the_newest(desk: OperationContext) -> str:
    """Return an id beyond all that there are: the clock of a client may be ahead, and so are its ids."""
    page = await desk.ask(desk.verbs.list_jobs(JobFilter(limit=1), 1))
    newest = max((UUID(job.id).int for job in page.jobs), default=0)
    return str(UUID(int=min(newest + 1, _LAST)))


def to_micros(at: datetime) -> int:
    """Return a moment as whole microseconds, as a mark has it."""
    return (at - _EPOCH) // timedelta(microseconds=1)


async def _count(desk: OperationContext, selection: Selection) -> tuple[int, bool]:
    """Return how many there are; where the store keeps no count of them, some are counted."""
    which = selection.which
    if selection.nothing:
        return 0, False
    plain = msgspec.structs.replace(which, states=(), queue=None, limit=0) == type(which)(limit=0)
    if plain and selection.wanted is None:
        states = which.states or tuple(State)
        queues = await all_queues(desk)
        meant = [queue for queue in queues if which.queue in {None, queue.name}]
        return sum(queue.states.get(state, 0) for queue in meant for state in states), False
    count, more, looks = 0, False, 0
    async for found in pages_of(desk, selection, MOST_COUNTED):
        count, more, looks = count + len(found.jobs), found.next is not None, looks + found.bounded
        if looks == MOST_LOOKS:
            break
    return count, more


def is_at_least(mark: str) -> bool:
    """Tell whether there were more than were counted, and all of them are meant."""
    return mark.endswith(_AT_LEAST)


def confirmation(asked: JobsWhich, action: BulkAction | None, count: int, mark: str) -> str:
    """Return what says that somebody knows how many jobs are meant, and that only those of its mark are.

    The mark is an id, below which they are, and the microsecond at which they had been counted; and, where not all
    were, a sign that all of them are meant.
    """
    fields = {name: getattr(asked, name) for name in JobsWhich.__struct_fields__}
    meant = msgspec.json.encode([fields, action, count, mark], order="sorted")
    return f"{mark}.{blake2b(meant, digest_size=8).hexdigest()}"


# One job, with all that is known of it.

EDITED_FROM = "standfast.edited_from"
"""Where the metadata of a job names the dead one of which it is the corrected copy."""

CLONED_FROM = "standfast.cloned_from"
"""Where the metadata of a job names the one of which it is a copy."""

_CAN = {
    State.SCHEDULED: ("jobs.retry", "jobs.cancel", "jobs.reschedule", "jobs.signal", "jobs.clone"),
    State.READY: ("jobs.cancel", "jobs.reschedule", "jobs.signal", "jobs.clone"),
    State.BLOCKED: ("jobs.cancel", "jobs.signal", "jobs.clone"),
    State.HELD: ("jobs.cancel", "jobs.signal", "jobs.clone"),
    State.RUNNING: ("jobs.cancel", "jobs.signal", "jobs.clone"),
    State.DEAD: ("jobs.retry", "jobs.edit_and_retry", "jobs.discard", "jobs.clone"),
    State.COMPLETED: ("jobs.clone",),
    State.CANCELLED: ("jobs.clone",),
}


@reads("jobs.show", "/jobs/{id}")
async def show_job(desk: OperationContext, asked: WhichJob) -> JobSeen:
    """Show all that is known of a job, and why it is where it is. The last characters of an id will do."""
    found = await find_job(desk, asked.id)
    story = await desk.ask(read_job_details(desk.verbs, found.id))
    job, now = story.job, story.situation.now
    args, problem = args_seen(job.payload)
    task = await find_task(desk, job.task)
    known = {job.id: KnownJob(job.task, job.state)}
    locks = () if job.state in FINAL else await all_locks(desk)
    row = asdict(job_row(job, story.incidents)) | {"error": job.error}
    if job.result is not None:
        row["result"] = value_seen(job.result)
    return JobSeen(
        **row,
        **asdict(written_seen(story.written)),
        now=now,
        version=job.version,
        payload_size=len(job.payload),
        crashes=job.crashes,
        group=job.group,
        after=job.after,
        start_by=job.start_by,
        on_late=job.on_late,
        metadata={
            name: value
            for name, value in without_provenance(job.metadata).items()
            if name not in {EDITED_FROM, CLONED_FROM}
        },
        args=args,
        args_problem=problem,
        result_until=job.result_until,
        attempts=tuple(map(_attempt, story.attempts)),
        timeline=tuple(_timeline(story)),
        why=_why(story.why),
        locks=tuple(lock for lock in locks if any(job.id in holder.owner for holder in lock.holders)),
        incident_rows=tuple(incident_row(each, known) for each in story.incidents),
        forgotten_incidents=story.forgotten,
        can=_can(job),
        parameters=None if task is None else task.parameters,
        edited_from=job.metadata.get(EDITED_FROM),
        cloned_from=job.metadata.get(CLONED_FROM),
    )


def _can(job: Job) -> tuple[str, ...]:
    """Return what can be done with a job; one that is suspended waits for a signal, and not for a time."""
    suspended = is_suspended(job.reason)
    return tuple(each for each in _CAN[job.state] if not (suspended and each == "jobs.reschedule"))


def _attempt(attempt: Attempt) -> AttemptSeen:
    began, ended = attempt.started_at, attempt.ended_at
    return AttemptSeen(
        fence=attempt.fence,
        worker=attempt.worker,
        started=had_started(attempt),
        started_at=began,
        ended_at=ended,
        took=None if began is None or ended is None or attempt.folded else (ended - began).total_seconds(),
        how=attempt.how,
        error=attempt.error,
        traceback=text_seen(attempt.traceback),
        log=text_seen(attempt.log),
        folded=attempt.folded,
    )


def _timeline(story: JobDetails) -> Iterator[Station]:
    """Yield the life of a job, the first first; what is still to come is last."""
    job = story.job
    yield Station(at=job.created_at, what="enqueued")
    folded = [each for each in story.attempts if each.folded]
    for each in story.attempts:
        if each.folded:
            if each is folded[-1] and each.ended_at is not None:
                yield Station(at=each.ended_at, what="folded", detail=f"{sum(one.folded for one in folded):,}")
            continue
        if each.started_at is not None:
            yield Station(at=each.started_at, what="started", fence=each.fence, worker=each.worker)
        if each.ended_at is not None:
            yield Station(
                at=each.ended_at, what=each.how or "ended", fence=each.fence, worker=each.worker, detail=each.error
            )
    if job.finished_at is not None:
        yield Station(at=job.finished_at, what=job.state.value, detail=job.reason)
    elif job.state in {State.SCHEDULED, State.READY, State.BLOCKED}:
        yield Station(at=job.run_at, what="due", detail=job.reason)


def _why(told: Explanation) -> WhySeen:
    return WhySeen(
        cause=told.cause.value, says=told.says, remedy=told.remedy, notes=tuple(told.notes), text=told.text
    )


# What can be done with one job.


@acts("jobs.retry", "/jobs/{id}/retry", Role.OPERATOR)
async def retry_job(desk: OperationContext, asked: WhichJob) -> JobDone:
    """Run a dead job again, with all its attempts, or a scheduled one now."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    await desk.ask(change_job(desk.verbs, JobAction.RETRY, job.id))
    desk.note(after=Phrase("state.ready"))
    return JobDone(id=job.id, answer="requeued")


@acts("jobs.cancel", "/jobs/{id}/cancel", Role.OPERATOR)
async def cancel_job(desk: OperationContext, asked: CancelAsked) -> JobDone:
    """Cancel a job that waits; of one that runs, ask its worker to stop it, or to kill the process of its own."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    answer = (await desk.ask(change_job(desk.verbs, JobAction.CANCEL, job.id))).cancellation
    if answer is Cancellation.TOO_LATE and job.state is not State.CANCELLED:
        latest = await find_job(desk, job.id)
        if latest.state is not State.CANCELLED:
            raise JobStateError(Phrase("refusal.too_late", job=job.id, state=Phrase(f"state.{latest.state}")))
    order: Order | None = None
    if asked.kill and answer is Cancellation.REQUESTED:
        latest = await find_job(desk, job.id)
        if latest.worker is not None:
            details = {"job": job.id, "fence": str(latest.fence)}
            order = await desk.ask(give_order(desk.verbs, KILL, latest.worker, details))
    told = "requested" if answer is Cancellation.REQUESTED else State.CANCELLED.value
    desk.note(after=Phrase("noted.requested" if answer is Cancellation.REQUESTED else "state.cancelled"))
    ordered = {} if order is None else {"worker": order.worker, "order": order.id}
    return JobDone(id=job.id, answer=told, **ordered)


@acts("jobs.discard", "/jobs/{id}/discard", Role.ADMIN)
async def discard_job(desk: OperationContext, asked: WhichJob) -> JobDone:
    """Drop a dead job: it ends as cancelled (discarded)."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    await desk.ask(change_job(desk.verbs, JobAction.DISCARD, job.id))
    desk.note(after=Phrase("noted.discarded"))
    return JobDone(id=job.id, answer="discarded")


@acts("jobs.reschedule", "/jobs/{id}/reschedule", Role.OPERATOR)
async def reschedule_job(desk: OperationContext, asked: RescheduleAsked) -> JobDone:
    """Let a job that waits to be started be due at another time."""
    job = await find_job(desk, asked.id)
    run_at = coming("at", asked.at, (await desk.ask(ask_time(desk.verbs))).now)
    if run_at is None:
        raise WrongRequestError(Phrase("refusal.no_time"))
    desk.note(before=job.run_at.isoformat())
    await desk.ask(change_job(desk.verbs, JobAction.RESCHEDULE, job.id, run_at))
    desk.note(after=run_at.isoformat())
    return JobDone(id=job.id, answer="rescheduled")


@acts("jobs.signal", "/jobs/{id}/signal", Role.OPERATOR)
async def signal_job(desk: OperationContext, asked: SignalAsked) -> SignalDone:
    """Send a signal to a job that is not over."""
    job = await find_job(desk, asked.id)
    body = encode_signal(asked.name, asked.data)
    if not await desk.ask(desk.verbs.signal(job.id, asked.name, asked.token or new_job_id(), body)):
        raise too_late(job.id, asked.name)
    desk.note(after=Phrase("noted.signal", name=asked.name))
    waits_for = signal_name(job.reason)
    return SignalDone(id=job.id, answer="sent", waited=waits_for == asked.name, waits_for=waits_for)
