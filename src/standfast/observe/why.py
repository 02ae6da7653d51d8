"""Why a job is where it is: a look-up of (state, reason, time) and of who could run it. Pure."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from standfast.model.arguments import MISFIT
from standfast.model.crash import CRASHES_ALONE_LIMIT
from standfast.model.job import Job, OnLate, channel_of, planned_of, schedule_of
from standfast.model.memos import is_for_ever, is_suspended, signal_name
from standfast.model.phrases import Dated, Phrase, followed, ordinal
from standfast.model.states import WAITING, Reason, State
from standfast.model.suggestions import closest_name
from standfast.observe.obstacles import (
    OVERDUE,
    START_A_WORKER,
    Cause,
    Explanation,
    Windows,
    job_closed,
    look_in_log,
    named_worker,
    obstacle_of,
    shut_out_by,
)
from standfast.stores.values import Situation, Worker

PUT_OFF = timedelta(seconds=1)  # what a window puts off is due at its end or less than this after it
IGNORED = timedelta(seconds=10)  # a handler that goes on for so long after it was told to end ignores that
_MAY_BE_SHUT_OUT = frozenset({State.READY, State.SCHEDULED, State.HELD})
"""The states in which a window may keep a job from starting."""

_NOT_STARTED = WAITING | {State.HELD}

_GIVEN_UP: Mapping[str, Cause] = MappingProxyType(
    {
        Reason.REQUESTED: Cause.CANCELLED,
        Reason.DISCARDED: Cause.DISCARDED,
        Reason.REPLACED: Cause.REPLACED,
        Reason.EXPIRED: Cause.EXPIRED,
    }
)


def explain(
    situation: Situation,
    started_at: datetime | None = None,
    windows: Windows = (),
    tasks: Mapping[str, str] = MappingProxyType({}),
) -> Explanation:
    """Say why a job is where it is.

    `started_at` is when the present claim began to run, where it is known; `windows` are those that the store tells
    of, `tasks` the isolation of those that are known, by name.
    """
    job = situation.job
    if job.state is State.RUNNING:
        told = _running(situation, started_at, tasks)
    elif job.state is State.BLOCKED:
        told = _blocked(situation, tasks)
    else:
        told = _closed(situation, windows) or _EXPLANATIONS[job.state](situation)
    return dataclasses.replace(
        told, notes=(*told.notes, *_expiry(situation), *_delivery(situation), *_provenance(situation))
    )


def _closed(situation: Situation, windows: Windows) -> Explanation | None:
    """Return how a window keeps a job waiting, if one does; where its queue is paused, that comes first."""
    job, now = situation.job, situation.now
    if job.state not in _MAY_BE_SHUT_OUT or situation.queue_paused_at is not None:
        return None
    may_come_now = signal_name(job.reason) is not None
    closed = job_closed(windows, job, now if may_come_now else max(job.run_at - PUT_OFF, now))
    if closed is None:
        return None
    what, until = closed.what, closed.until(now)
    if job.run_at <= now and job.state is not State.HELD:
        says = Phrase("because.due_and_closed", since=Dated(job.run_at, now), what=what, until=until)
        return Explanation(Cause.CLOSED, says)
    told = _EXPLANATIONS[job.state](situation)
    code = "because.closed" if closed.closing.begin <= now else "because.then_closed"
    return dataclasses.replace(told, notes=(Phrase(code, what=what, until=until), *told.notes))


def _expiry(situation: Situation) -> Iterator[Phrase]:
    """Yield that a job which waits will not run at all: it is too late for its first start."""
    job, now = situation.job, situation.now
    if job.state not in _NOT_STARTED or job.on_late is not OnLate.EXPIRE or job.attempt or job.start_by is None:
        return
    if job.run_at <= job.start_by < now:
        came_before = job.fence > (job.state is State.HELD)
        code = "because.expires_unless" if came_before else "because.expires"
        yield Phrase(code, by=Dated(job.start_by, now))


def _delivery(situation: Situation) -> Iterator[Phrase]:
    """Yield which channel a delivery needs that was put off: who does not have it may have done so."""
    job = situation.job
    channel = channel_of(job.task, job.metadata)
    if channel is not None and job.state in WAITING and job.fence and not job.attempt:
        yield Phrase("because.through_channel", channel=channel)


def _provenance(situation: Situation) -> Iterator[Phrase]:
    """Yield which schedule the job comes from, if from any."""
    schedule, planned = schedule_of(situation.job.metadata), planned_of(situation.job.metadata)
    if schedule is not None and planned is not None:
        yield Phrase("because.of_schedule_at", schedule=schedule, planned=Dated(planned, situation.now))
    elif schedule is not None:
        yield Phrase("because.of_schedule", schedule=schedule)


def _scheduled(situation: Situation) -> Explanation:
    job = situation.job
    if job.run_at <= situation.now:
        return _ready(situation)
    if is_suspended(job.reason):
        return _suspended(situation)
    cause, says = _waits(situation)
    if situation.queue_paused_at is not None:
        paused = obstacle_of(situation)
        return Explanation(cause, followed(says, Phrase("because.even_then", obstacle=paused.says)), paused.remedy)
    return Explanation(cause, says, Phrase("remedy.run_now", id=job.id))


def _suspended(situation: Situation) -> Explanation:
    """Tell what a job waits for that gave its slot back on purpose."""
    job, now = situation.job, situation.now
    name = signal_name(job.reason)
    paused = situation.queue_paused_at is not None
    notes = (Phrase("because.even_then", obstacle=obstacle_of(situation).says),) if paused else ()
    until = Dated(job.run_at, now)
    if name is None:
        return Explanation(Cause.SLEEPING, Phrase("because.sleeps", until=until), notes=notes)
    says = Phrase("because.signal_until", name=name, until=until)
    if is_for_ever(job.run_at, now):
        says = Phrase("because.signal", name=name)
    remedy = Phrase("remedy.signal", id=job.id, name=shlex.quote(name))
    return Explanation(Cause.WAITING_FOR_SIGNAL, says, remedy, notes)


def _waits(situation: Situation) -> tuple[Cause, Phrase]:
    """Return that a job waits for its time, and what for."""
    job, until = situation.job, Dated(situation.job.run_at, situation.now)
    if job.attempt:
        known = {"until": until, "attempt": ordinal(job.attempt + 1), "most": job.max_attempts}
        if job.error:
            return Cause.RETRY_WAIT, Phrase("because.retry_after", error=job.error.rstrip("."), **known)
        return Cause.RETRY_WAIT, Phrase("because.retry", **known)
    if job.fence:
        return Cause.PUT_OFF, Phrase("because.put_off", until=until)
    return Cause.NOT_DUE, Phrase("because.not_due", until=until)


def _ready(situation: Situation) -> Explanation:
    job, run_at = situation.job, Dated(situation.job.run_at, situation.now)
    if job.run_at > situation.now and job.state is State.READY:
        return Explanation(Cause.NOT_DUE, Phrase("because.not_due_yet", until=run_at))
    obstacle = obstacle_of(situation)
    says = Phrase("because.due", since=run_at, obstacle=obstacle.says)
    return Explanation(obstacle.cause, says, obstacle.remedy)


def _blocked(situation: Situation, tasks: Mapping[str, str]) -> Explanation:
    job = situation.job
    if job.reason == Reason.NO_WORKER:
        return _unknown(situation, tasks)
    if job.reason == Reason.REPLACING:
        says = Phrase("because.replacing", job=job.after)
        return Explanation(Cause.REPLACING, says, Phrase("remedy.ask_about", id=job.after))
    reason = job.reason or Phrase("because.no_reason")
    return Explanation(Cause.BLOCKED, Phrase("because.blocked", reason=reason))


def _unknown(situation: Situation, tasks: Mapping[str, str]) -> Explanation:
    """Tell of a job that a worker put aside: those that know its task may run by now, and be kept from it."""
    name = situation.job.task
    task = Phrase("because.version_of_task", task=name, version=situation.job.version)
    shut_out = shut_out_by(situation)
    if shut_out is not None:
        says = Phrase("because.put_aside", task=task, obstacle=shut_out.says)
        return Explanation(shut_out.cause, says, shut_out.remedy)
    meant = None if name in tasks else closest_name(name, tasks.keys())
    remedy = Phrase("remedy.deploy") if meant is None else Phrase("remedy.misspelt", meant=meant)
    return Explanation(Cause.TASK_UNKNOWN, Phrase("because.task_unknown", task=task), remedy)


def _held(situation: Situation) -> Explanation:
    job, now = situation.job, situation.now
    worker, known = _its_worker(situation), {"owner": _owner(situation), "due": Dated(job.run_at, now)}
    if job.run_at > now:
        told = Explanation(Cause.HELD, Phrase("because.held", **known))
    elif worker is None or now - job.run_at <= OVERDUE or worker.running >= worker.info.concurrency:
        told = Explanation(Cause.HELD, Phrase("because.held_and_due", **known))
    else:
        says = Phrase("because.not_started", running=worker.running, places=worker.info.concurrency, **known)
        told = Explanation(Cause.NOT_STARTED, says, Phrase("remedy.still_held", look=look_in_log(worker)))
    return _with_its_worker(situation, told)


def _running(situation: Situation, started_at: datetime | None, tasks: Mapping[str, str]) -> Explanation:
    job = situation.job
    known = {"owner": _owner(situation), "attempt": job.attempt + 1, "most": job.max_attempts}
    says = Phrase("because.runs", **known)
    if started_at is not None:
        says = Phrase("because.runs_since", since=Dated(started_at, situation.now), **known)
    told = _with_its_worker(situation, Explanation(Cause.RUNNING, says))
    silence = _told_for(situation)
    if silence is None or silence < IGNORED or told.remedy is not None:
        return told
    isolated = tasks.get(job.task) == "process"
    return dataclasses.replace(told, remedy=Phrase("remedy.kill" if isolated else "remedy.recycle", id=job.id))


def _told_for(situation: Situation) -> timedelta | None:
    """Return for how long the handler of a job has been told to end, as far as its worker has said."""
    worker, job = _its_worker(situation), situation.job
    if worker is None or worker.vitals is None or not job.cancel_requested:
        return None
    seconds = worker.vitals.told.get(job.id)
    return None if seconds is None else timedelta(seconds=seconds) + worker.beat_age


def _owner(situation: Situation) -> Phrase:
    worker = _its_worker(situation)
    return Phrase("obstacle.worker_gone", id=situation.job.worker) if worker is None else named_worker(worker)


def _its_worker(situation: Situation) -> Worker | None:
    return next((worker for worker in situation.workers if worker.info.id == situation.job.worker), None)


def _with_its_worker(situation: Situation, told: Explanation) -> Explanation:
    """Add what to expect of its worker: that it hears of a cancellation, or misses its beats."""
    worker = _its_worker(situation)
    says = told.says
    if situation.job.cancel_requested:
        told_for = _told_for(situation)
        code = "cancelling" if told_for is None else "told" if told_for < IGNORED else "ignored"
        says = followed(says, Phrase(f"because.{code}", **({} if told_for is None else {"told": told_for})))
    if worker is None:
        return Explanation(Cause.WORKER_LOST, followed(says, Phrase("because.unregistered")))
    lease, silent = worker.info.lease, worker.beat_age
    if worker.is_live:
        if silent > lease / 2:
            says = followed(says, Phrase("because.silent", silent=silent, left=lease - silent))
        return dataclasses.replace(told, says=says)
    if any(other.is_live for other in situation.workers):
        lost = Phrase("because.lost", silent=silent, lease=lease)
        return Explanation(Cause.WORKER_LOST, followed(says, lost))
    lost = Phrase("because.all_lost", silent=silent, lease=lease)
    return Explanation(Cause.WORKER_LOST, followed(says, lost), START_A_WORKER)


def _completed(situation: Situation) -> Explanation:
    attempt = ordinal(situation.job.attempt + 1)
    return Explanation(Cause.COMPLETED, _finished("because.completed", situation, attempt=attempt))


def _dead(situation: Situation) -> Explanation:
    job = situation.job
    says = _finished("because.dead", situation, cause=_cause_of_death(job))
    if job.error:
        says = followed(says, Phrase("because.last_error", error=job.error.rstrip(".")))
    return Explanation(Cause.DEAD, says, Phrase("remedy.misfit" if _is_misfit(job) else "remedy.dead", id=job.id))


def _is_misfit(job: Job) -> bool:
    """Tell whether a job is dead since its arguments do not fit its task."""
    return job.error is not None and f"PayloadError: {MISFIT}" in job.error


def _cause_of_death(job: Job) -> Phrase:
    if _is_misfit(job):
        return Phrase("because.misfit")
    if job.attempt >= job.max_attempts:
        return Phrase("because.all_failed", n=job.max_attempts)
    if job.group and job.crashes >= CRASHES_ALONE_LIMIT:
        return Phrase("because.crashed", crashes=job.crashes)
    return Phrase("because.given_up", attempt=job.attempt, most=job.max_attempts)


def _cancelled(situation: Situation) -> Explanation:
    job = situation.job
    cause = _GIVEN_UP.get(job.reason or "")
    why: Phrase | str = job.reason or Phrase("because.no_reason")
    if cause is Cause.EXPIRED and job.start_by is not None:
        why = Phrase("because.expired_by", by=Dated(job.start_by, situation.now))
    elif job.reason == Reason.REQUESTED and schedule_of(job.metadata) is not None:
        why = Phrase("because.requested_or_revoked")
    elif cause is not None:
        why = Phrase(f"because.{job.reason}")
    return Explanation(cause or Cause.CANCELLED, _finished("because.cancelled", situation, why=why), _way_back(job))


def _way_back(job: Job) -> Phrase:
    """Return how what a cancelled job was to do may still be done: it itself is over for good."""
    if job.reason == Reason.REPLACED and job.key is not None:
        return Phrase("remedy.which", task=shlex.quote(job.task), key=shlex.quote(job.key))
    schedule = schedule_of(job.metadata)
    if schedule is not None:
        return Phrase("remedy.trigger", schedule=shlex.quote(schedule))
    return Phrase("remedy.enqueue_anew")


def _finished(code: str, situation: Situation, **params: object) -> Phrase:
    """Return how a job ended, and when, where that is known."""
    at = situation.job.finished_at
    return Phrase(code, **params) if at is None else Phrase(f"{code}_at", at=Dated(at, situation.now), **params)


_EXPLANATIONS: Mapping[State, Callable[[Situation], Explanation]] = MappingProxyType(
    {
        State.SCHEDULED: _scheduled,
        State.READY: _ready,
        State.HELD: _held,
        State.COMPLETED: _completed,
        State.DEAD: _dead,
        State.CANCELLED: _cancelled,
    }
)
