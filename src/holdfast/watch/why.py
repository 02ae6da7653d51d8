"""Why a job is where it is: a look-up of (state, reason, time) and of who could run it. Pure."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from holdfast.core.crash import CRASHES_ALONE_LIMIT
from holdfast.core.job import Job, OnLate
from holdfast.core.memo import is_for_ever, is_suspended, signal_name
from holdfast.core.provenance import planned_of, schedule_of
from holdfast.core.states import WAITING, Reason, State
from holdfast.store.protocol import Situation, Worker
from holdfast.watch.closed import Windows, job_closed
from holdfast.watch.explanation import Cause, Explanation
from holdfast.watch.obstacle import (
    OVERDUE,
    START_A_WORKER,
    look_in_log,
    named_worker,
    obstacle_of,
    shut_out_by,
)
from holdfast.words import dated, ordinal, span

PUT_OFF = timedelta(seconds=1)
"""What a window puts off is due at its end or less than this after it."""

_MAY_BE_SHUT_OUT = frozenset({State.READY, State.SCHEDULED, State.HELD})
"""The states in which a window may keep a job from starting."""

_NOT_STARTED = WAITING | {State.HELD}

_GIVEN_UP: Mapping[str, tuple[Cause, str]] = MappingProxyType(
    {
        Reason.REQUESTED: (Cause.CANCELLED, "someone asked for it"),
        Reason.DISCARDED: (Cause.DISCARDED, "it was discarded"),
        Reason.REPLACED: (Cause.REPLACED, "another job with the same key took its place"),
        Reason.EXPIRED: (Cause.EXPIRED, "it came too late to its start"),
    }
)


def explain(situation: Situation, started_at: datetime | None = None, windows: Windows = ()) -> Explanation:
    """Say why a job is where it is.

    `started_at` is when the present claim began to run, where it is known; `windows` are those that the store tells
    of.
    """
    job = situation.job
    if job.state is State.RUNNING:
        told = _running(situation, started_at)
    else:
        told = _closed(situation, windows) or _EXPLANATIONS[job.state](situation)
    return dataclasses.replace(told, notes=(*told.notes, *_expiry(situation), *_provenance(situation)))


def _closed(situation: Situation, windows: Windows) -> Explanation | None:
    """Return how a window keeps a job waiting, if one does; where its queue is paused, that comes first."""
    job, now = situation.job, situation.now
    if job.state not in _MAY_BE_SHUT_OUT or situation.queue_paused_at is not None:
        return None
    may_come_now = signal_name(job.reason) is not None
    closed = job_closed(windows, job, now if may_come_now else max(job.run_at - PUT_OFF, now))
    if closed is None:
        return None
    until = closed.until(now)
    if job.run_at <= now and job.state is not State.HELD:
        since = dated(job.run_at, now)
        return Explanation(
            Cause.CLOSED, f"It has been due since {since}, and its {closed.name} is closed until {until}."
        )
    told = _EXPLANATIONS[job.state](situation)
    then = "" if closed.closing.begin <= now else "then "
    return dataclasses.replace(told, notes=(f"Its {closed.name} is {then}closed until {until}.", *told.notes))


def _expiry(situation: Situation) -> Iterator[str]:
    """Yield that a job which waits will not run at all: it is too late for its first start."""
    job, now = situation.job, situation.now
    if job.state not in _NOT_STARTED or job.on_late is not OnLate.EXPIRE or job.attempt or job.start_by is None:
        return
    if job.run_at <= job.start_by < now:
        by = dated(job.start_by, now)
        came_before = job.fence > (job.state is State.HELD)
        unless = ", unless it has begun, and written something down" if came_before else ""
        yield f"It was to start by {by} at the latest: it expires as soon as a worker comes to it{unless}."


def _provenance(situation: Situation) -> Iterator[str]:
    """Yield which schedule the job comes from, if from any."""
    schedule, planned = schedule_of(situation.job.metadata), planned_of(situation.job.metadata)
    if schedule is not None:
        when = f", planned for {dated(planned, situation.now)}" if planned else ""
        yield f"It comes from schedule '{schedule}'{when}."


def _scheduled(situation: Situation) -> Explanation:
    job = situation.job
    if job.run_at <= situation.now:
        return _ready(situation)
    if is_suspended(job.reason):
        return _suspended(situation)
    cause, purpose = _purpose(job)
    says = f"It waits until {dated(job.run_at, situation.now)}{purpose}."
    if situation.queue_paused_at is not None:
        paused = obstacle_of(situation)
        says += f" Even then it will not start: {paused.says}."
        return Explanation(cause, says, paused.remedy)
    return Explanation(cause, says, f"`holdfast jobs retry {job.id}` lets it run now")


def _suspended(situation: Situation) -> Explanation:
    """Tell what a job waits for that gave its slot back on purpose."""
    job, now = situation.job, situation.now
    name = signal_name(job.reason)
    paused = situation.queue_paused_at is not None
    notes = (f"Even then it will not start: {obstacle_of(situation).says}.",) if paused else ()
    if name is None:
        until = dated(job.run_at, now)
        says = f"Its handler sleeps until {until}, without a slot; then it runs again from its top."
        return Explanation(Cause.SLEEPING, says, notes=notes)
    ends = "however long that takes"
    if not is_for_ever(job.run_at, now):
        ends = f"until {dated(job.run_at, now)} at the latest"
    return Explanation(
        Cause.WAITING_FOR_SIGNAL,
        f"It waits for signal '{name}', {ends}, without a slot; then its handler runs again from its top.",
        f"`holdfast jobs signal {job.id} {shlex.quote(name)}` sends it",
        notes,
    )


def _purpose(job: Job) -> tuple[Cause, str]:
    if job.attempt:
        after = f" after {job.error.rstrip('.')}" if job.error else ""
        return Cause.RETRY_WAIT, f" for its {ordinal(job.attempt + 1)} attempt of {job.max_attempts}{after}"
    if job.fence:
        return Cause.PUT_OFF, " to run again; its run before was put off or given back, and no attempt was charged"
    return Cause.NOT_DUE, ", the time it was enqueued for"


def _ready(situation: Situation) -> Explanation:
    job, now = situation.job, situation.now
    if job.run_at > now and job.state is State.READY:
        return Explanation(Cause.NOT_DUE, f"It waits until {dated(job.run_at, now)}, the time it is due.")
    obstacle = obstacle_of(situation)
    says = f"It has been due since {dated(job.run_at, now)}, and {obstacle.says}."
    return Explanation(obstacle.cause, says, obstacle.remedy)


def _blocked(situation: Situation) -> Explanation:
    job = situation.job
    if job.reason == Reason.NO_WORKER:
        return _unknown(situation)
    if job.reason == Reason.REPLACING:
        return Explanation(
            Cause.REPLACING,
            f"It takes the place of job {job.after}, which has the same key and which a worker has in hand: it runs"
            " when that one has ended or, if it has not started, was given back.",
            f"`holdfast why {job.after}` says how that one stands",
        )
    return Explanation(Cause.BLOCKED, f"It is blocked: {job.reason or 'no reason was given'}.")


def _unknown(situation: Situation) -> Explanation:
    """Tell of a job that a worker put aside: those that know its task may run by now, and be kept from it."""
    task = f"task '{situation.job.task}' (payload version {situation.job.version})"
    shut_out = shut_out_by(situation)
    if shut_out is not None:
        aside = f"It was put aside by a worker that does not know {task}, to wait for one that does"
        return Explanation(shut_out.cause, f"{aside}; and {shut_out.says}.", shut_out.remedy)
    return Explanation(
        Cause.TASK_UNKNOWN,
        f"No running worker knows {task}.",
        "deploy or start a worker that registers it, and it will run",
    )


def _held(situation: Situation) -> Explanation:
    job, now = situation.job, situation.now
    worker, held, due = _its_worker(situation), f"It is held by {_owner(situation)}", dated(job.run_at, now)
    if job.run_at > now:
        told = Explanation(Cause.HELD, f"{held}; it starts at {due}.")
    elif worker is None or now - job.run_at <= OVERDUE or worker.running >= worker.info.concurrency:
        told = Explanation(
            Cause.HELD, f"{held}; it has been due since {due} and starts as soon as a place is free."
        )
    else:
        places = f"only {worker.running} of the {worker.info.concurrency} places there run a job"
        says = f"{held}; it has been due since {due} and was not reported to run, though {places}."
        again = f"ask again: if it is still held then, {look_in_log(worker)}"
        told = Explanation(Cause.NOT_STARTED, says, again)
    return _with_its_worker(situation, told)


def _running(situation: Situation, started_at: datetime | None) -> Explanation:
    job = situation.job
    since = f" since {dated(started_at, situation.now)}" if started_at else ""
    says = f"It runs on {_owner(situation)}{since}, attempt {job.attempt + 1} of {job.max_attempts}."
    return _with_its_worker(situation, Explanation(Cause.RUNNING, says))


def _owner(situation: Situation) -> str:
    worker = _its_worker(situation)
    return f"worker {situation.job.worker}" if worker is None else named_worker(worker)


def _its_worker(situation: Situation) -> Worker | None:
    return next((worker for worker in situation.workers if worker.info.id == situation.job.worker), None)


def _with_its_worker(situation: Situation, told: Explanation) -> Explanation:
    """Add what to expect of its worker: that it hears of a cancellation, or misses its beats.

    A healthy one beats every third of its lease.
    """
    worker = _its_worker(situation)
    says = told.says
    if situation.job.cancel_requested:
        says += " Its cancellation was requested; the worker hears of it at its next beat."
    if worker is None:
        says += " That worker is no longer registered: the job is about to be given back."
        return Explanation(Cause.WORKER_LOST, says)
    lease, silent = worker.info.lease, worker.beat_age
    if worker.is_live:
        if silent > lease / 2:
            says += f" That worker has been silent for {span(silent)}; its lease ends in {span(lease - silent)}."
        return dataclasses.replace(told, says=says)
    says += f" That worker has been silent for {span(silent)}, longer than its lease of {span(lease)}:"
    if any(other.is_live for other in situation.workers):
        return Explanation(
            Cause.WORKER_LOST, f"{says} a worker gives the job back once it has been alive for a lease."
        )
    return Explanation(Cause.WORKER_LOST, f"{says} the job goes back when a worker runs again.", START_A_WORKER)


def _completed(situation: Situation) -> Explanation:
    attempt = ordinal(situation.job.attempt + 1)
    return Explanation(Cause.COMPLETED, f"It completed{_finished('at', situation)} on its {attempt} attempt.")


def _dead(situation: Situation) -> Explanation:
    job = situation.job
    last = f" Its last error: {job.error.rstrip('.')}." if job.error else ""
    return Explanation(
        Cause.DEAD,
        f"It is dead{_finished('since', situation)}: {_cause_of_death(job)}.{last}",
        f"`holdfast dead retry {job.id}` runs it again, `holdfast dead discard {job.id}` drops it",
    )


def _cause_of_death(job: Job) -> str:
    if job.attempt >= job.max_attempts:
        if job.max_attempts == 1:
            return "its only attempt failed"
        return f"all {job.max_attempts} attempts failed"
    if job.alone and job.crashes >= CRASHES_ALONE_LIMIT:
        return f"it crashed the process that ran it {job.crashes} times"
    return f"its handler gave it up on attempt {job.attempt} of {job.max_attempts}"


def _cancelled(situation: Situation) -> Explanation:
    job = situation.job
    reason = job.reason or "no reason was given"
    cause, words = _GIVEN_UP.get(reason, (Cause.CANCELLED, reason))
    if cause is Cause.EXPIRED:
        by = f", by {dated(job.start_by, situation.now)} at the latest" if job.start_by else ""
        words = f"{words}{by}, and it was enqueued with on_late='expire'"
    elif reason == Reason.REQUESTED and schedule_of(job.metadata) is not None:
        words = f"{words}, or a pause or change of its schedule took it back"
    return Explanation(cause, f"It was cancelled{_finished('at', situation)}: {words}.", _way_back(job))


def _way_back(job: Job) -> str:
    """Return how what a cancelled job was to do may still be done: it itself is over for good."""
    if job.reason == Reason.REPLACED and job.key is not None:
        return f"`holdfast jobs list --task {shlex.quote(job.task)} --key {shlex.quote(job.key)}` shows which"
    schedule = schedule_of(job.metadata)
    if schedule is not None:
        return f"to run it after all, `holdfast schedules trigger {shlex.quote(schedule)}`"
    return "to run it after all, enqueue it anew"


def _finished(preposition: str, situation: Situation) -> str:
    at = situation.job.finished_at
    return f" {preposition} {dated(at, situation.now)}" if at else ""


_EXPLANATIONS: Mapping[State, Callable[[Situation], Explanation]] = MappingProxyType(
    {
        State.SCHEDULED: _scheduled,
        State.READY: _ready,
        State.BLOCKED: _blocked,
        State.HELD: _held,
        State.COMPLETED: _completed,
        State.DEAD: _dead,
        State.CANCELLED: _cancelled,
    }
)
