"""One job, with all that is known of it."""

from collections.abc import Iterator

from standfast.codec import trace_id_in
from standfast.core.crash import had_started
from standfast.core.job import Attempt, Job
from standfast.core.memo import is_suspended
from standfast.core.provenance import planned_of, without_provenance
from standfast.core.states import FINAL, State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.finding import find_job
from standfast.dashboard.reading.incidents import KnownJob, incident_row
from standfast.dashboard.reading.locks import all_locks
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.shown import args_seen, text_seen, value_seen, written_seen
from standfast.dashboard.reading.tasks import find_task
from standfast.dashboard.shapes.job import AttemptSeen, JobSeen, Station, WhichJob, WhySeen
from standfast.views.story import Story, tell_story
from standfast.watch.explanation import Explanation

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
async def show_job(desk: Desk, asked: WhichJob) -> JobSeen:
    """Show all that is known of a job, and why it is where it is. The last characters of an id will do."""
    found = await find_job(desk, asked.id)
    story = await desk.ask(tell_story(desk.verbs, found.id))
    job, now = story.job, story.situation.now
    args, problem = args_seen(job.payload)
    task = await find_task(desk, job.task)
    known = {job.id: KnownJob(job.task, job.state)}
    locks = () if job.state in FINAL else await all_locks(desk)
    return JobSeen(
        now=now,
        row=job_row(job),
        version=job.version,
        crashes=job.crashes,
        group=job.group,
        after=job.after,
        start_by=job.start_by,
        on_late=job.on_late,
        planned_at=planned_of(job.metadata),
        trace_id=trace_id_in(job.payload),
        metadata={
            name: value
            for name, value in without_provenance(job.metadata).items()
            if name not in {EDITED_FROM, CLONED_FROM}
        },
        args=args,
        args_problem=problem,
        result=None if job.result is None else value_seen(job.result),
        result_until=job.result_until,
        error=text_seen(job.error),
        attempts=tuple(map(_attempt, story.attempts)),
        timeline=tuple(_timeline(story)),
        why=_why(story.why),
        written=written_seen(story.written),
        locks=tuple(lock for lock in locks if any(job.id in holder.owner for holder in lock.holders)),
        incidents=tuple(incident_row(each, known) for each in story.incidents),
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


def _timeline(story: Story) -> Iterator[Station]:
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
