"""Why a job is where it is, in plain words: a look-up of (state, reason, until) and of who could run it. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from holdfast.core.crash import CRASHES_ALONE_LIMIT
from holdfast.core.job import Job
from holdfast.core.provenance import planned_of, schedule_of
from holdfast.core.states import Reason, State
from holdfast.store.protocol import Situation, Worker
from holdfast.watch.closed import Windows, job_closed
from holdfast.watch.words import counted, dated, one_line, ordinal, span

START_A_WORKER = "start one with `holdfast worker MODULE:APP`"

PUT_OFF = timedelta(seconds=1)
"""What a window puts off is due at its end or less than this after it."""

_MAY_BE_SHUT_OUT = frozenset({State.READY, State.SCHEDULED, State.HELD})
"""The states in which a window may keep a job from starting."""


def explain(situation: Situation, started_at: datetime | None = None, windows: Windows = ()) -> str:
    """Return one or two sentences.

    `started_at` is when the present claim began to run, where it is known; `windows` are those that the store tells
    of.
    """
    job = situation.job
    if job.state is State.RUNNING:
        told = _running(situation, started_at)
    else:
        told = _closed(situation, windows) or _EXPLANATIONS[job.state](situation)
    return one_line(told + _provenance(situation))


def _closed(situation: Situation, windows: Windows) -> str | None:
    """Return how a window keeps a job waiting, if one does; where its queue is paused, that comes first."""
    job, now = situation.job, situation.now
    if job.state not in _MAY_BE_SHUT_OUT or situation.queue_paused_at is not None:
        return None
    due_at = _due_at(job)
    closed = job_closed(windows, job, max(due_at - PUT_OFF, now))
    if closed is None:
        return None
    until = closed.until(now)
    if due_at <= now and job.state is not State.HELD:
        return f"It has been due since {dated(job.run_at, now)}, and its {closed.name} is closed until {until}."
    then = "" if closed.closing.begin <= now else "then "
    return f"{_EXPLANATIONS[job.state](situation)} Its {closed.name} is {then}closed until {until}."


def _provenance(situation: Situation) -> str:
    """Return which schedule the job comes from, as a further sentence; nothing where it comes from none."""
    job = situation.job
    schedule, planned = schedule_of(job.metadata), planned_of(job.metadata)
    if schedule is None:
        return ""
    when = f", planned for {dated(planned, situation.now)}" if planned else ""
    return f" It comes from schedule '{schedule}'{when}."


def is_live(worker: Worker) -> bool:
    """Return whether the worker's lease holds as far as anyone can tell."""
    return not worker.condemned and worker.beat_age <= worker.info.lease


def _scheduled(situation: Situation) -> str:
    job = situation.job
    due_at = _due_at(job)
    if due_at <= situation.now:
        return _ready(situation)
    text = f"It waits until {dated(due_at, situation.now)}{_purpose(job)}."
    if situation.queue_paused_at is not None:
        text += f" Even then it will not start before its queue is resumed: {_paused(situation)}."
    return text


def _due_at(job: Job) -> datetime:
    return job.until if job.until is not None and job.state is State.SCHEDULED else job.run_at


def _purpose(job: Job) -> str:
    if job.attempt:
        after = f" after {job.error}" if job.error else ""
        return f" for its {ordinal(job.attempt + 1)} attempt of {job.max_attempts}{after}"
    if job.fence:
        return " to run again; its run before was put off or given back, and no attempt was charged"
    return ", the time it was enqueued for"


def _ready(situation: Situation) -> str:
    job = situation.job
    if job.run_at > situation.now and job.state is State.READY:
        return f"It waits until {dated(job.run_at, situation.now)}, the time it is due."
    return f"It has been due since {dated(job.run_at, situation.now)}, and {_obstacle(situation)}."


def _obstacle(situation: Situation) -> str:
    """Return what keeps a due job from starting; the first that applies is the one to remove first."""
    job = situation.job
    live = [worker for worker in situation.workers if is_live(worker)]
    serving = [worker for worker in live if worker.info.queues is None or job.queue in worker.info.queues]
    if situation.queue_paused_at is not None:
        return _paused(situation)
    if not live:
        return _nobody(situation)
    if not serving:
        served = ", ".join(sorted({queue for worker in live for queue in worker.info.queues or ()}))
        return (
            f"no running worker serves queue '{job.queue}' (served: {served}):"
            f" start one with `holdfast worker MODULE:APP --queues {job.queue}`"
        )
    if job.alone:
        return (
            f"it was running when a worker crashed ({counted(job.crashes, 'crash', 'crashes')}),"
            " so it waits to run in a process of its own"
        )
    return _crowd(situation.ahead, serving)


def _paused(situation: Situation) -> str:
    assert situation.queue_paused_at is not None
    queue, since = situation.job.queue, dated(situation.queue_paused_at, situation.now)
    return f"queue '{queue}' is paused since {since}: `holdfast queues resume {queue}` lets it go on"


def _nobody(situation: Situation) -> str:
    if not situation.workers:
        return f"no worker is running: {START_A_WORKER}"
    last = min(worker.beat_age for worker in situation.workers)
    return f"no worker is alive (the last one gave its last sign of life {span(last)} ago): {START_A_WORKER}"


def _crowd(ahead: int, serving: list[Worker]) -> str:
    places = sum(worker.info.concurrency for worker in serving)
    taken = sum(worker.held + worker.running for worker in serving)
    first = f"{counted(ahead, 'job goes', 'jobs go')} first"
    who = f"{counted(len(serving), 'worker')} serving its queue"
    if taken >= places:
        verb = "is" if len(serving) == 1 else "are"
        return f"the {who} {verb} busy ({taken} of {places} places taken); {first}"
    if ahead:
        return f"the {who} will take it soon ({taken} of {places} places taken); {first}"
    return f"it goes next: the {who} will take it any moment ({taken} of {places} places taken)"


def _blocked(situation: Situation) -> str:
    job = situation.job
    if job.reason == Reason.NO_WORKER:
        return (
            f"No running worker knows task '{job.task}' (payload version {job.version}):"
            " deploy or start a worker that registers it, and it will run."
        )
    if job.reason == Reason.REPLACING:
        return (
            f"It takes the place of job {job.after}, which has the same key and which a worker has in hand:"
            " it runs when that one has ended or, if it has not started, was given back."
        )
    until = f" until {dated(job.until, situation.now)}" if job.until else ""
    return f"It is blocked{until}: {job.reason or 'no reason was given'}."


def _held(situation: Situation) -> str:
    job = situation.job
    when = (
        f"it starts at {dated(job.run_at, situation.now)}"
        if job.run_at > situation.now
        else f"it has been due since {dated(job.run_at, situation.now)} and starts as soon as a place is free"
    )
    return f"It is held by {_owner(situation)}; {when}.{_cancel_note(job)}{_silence_note(situation)}"


def _running(situation: Situation, started_at: datetime | None) -> str:
    job = situation.job
    since = f" since {dated(started_at, situation.now)}" if started_at else ""
    attempt = f"attempt {job.attempt + 1} of {job.max_attempts}"
    return f"It runs on {_owner(situation)}{since}, {attempt}.{_cancel_note(job)}{_silence_note(situation)}"


def _owner(situation: Situation) -> str:
    worker = _its_worker(situation)
    if worker is None:
        return f"worker {situation.job.worker}"
    return f"worker {worker.info.id} (host {worker.info.host}, pid {worker.info.pid})"


def _its_worker(situation: Situation) -> Worker | None:
    return next((worker for worker in situation.workers if worker.info.id == situation.job.worker), None)


def _cancel_note(job: Job) -> str:
    if not job.cancel_requested:
        return ""
    return " Its cancellation was requested; the worker hears of it at its next beat."


def _silence_note(situation: Situation) -> str:
    """Return what to expect of a worker that misses its beats; a healthy one beats every third of its lease."""
    worker = _its_worker(situation)
    if worker is None:
        return " That worker is no longer registered: the job is about to be given back."
    lease, silent = worker.info.lease, worker.beat_age
    if is_live(worker):
        if silent <= lease / 2:
            return ""
        return f" That worker has been silent for {span(silent)}; its lease ends in {span(lease - silent)}."
    gone = f" That worker has been silent for {span(silent)}, longer than its lease of {span(lease)}:"
    if any(is_live(other) for other in situation.workers):
        return f"{gone} a worker gives the job back once it has been alive for a lease."
    return f"{gone} the job goes back when a worker runs again; {START_A_WORKER}."


def _completed(situation: Situation) -> str:
    job = situation.job
    return f"It completed{_finished(situation)} on its {ordinal(job.attempt + 1)} attempt."


def _dead(situation: Situation) -> str:
    job = situation.job
    last = f" Its last error: {job.error.rstrip('.')}." if job.error else ""
    return (
        f"It is dead{_since(situation)}: {_cause_of_death(job)}.{last}"
        f" `holdfast dead retry {job.id}` runs it again, `holdfast dead discard` drops it."
    )


def _cause_of_death(job: Job) -> str:
    if job.attempt >= job.max_attempts:
        if job.max_attempts == 1:
            return "its only attempt failed"
        return f"all {job.max_attempts} attempts failed"
    if job.alone and job.crashes >= CRASHES_ALONE_LIMIT:
        return f"it crashed the process that ran it {job.crashes} times"
    return f"its handler gave it up on attempt {job.attempt} of {job.max_attempts}"


def _cancelled(situation: Situation) -> str:
    reason = situation.job.reason or "no reason was given"
    if reason == Reason.EXPIRED:
        return f"It was cancelled{_finished(situation)}: {_expired(situation)}."
    known = {
        Reason.REQUESTED.value: "someone asked for it",
        Reason.DISCARDED.value: "it was discarded",
        Reason.REPLACED.value: "another job with the same key took its place",
    }
    return f"It was cancelled{_finished(situation)}: {known.get(reason, reason)}."


def _expired(situation: Situation) -> str:
    start_by = situation.job.start_by
    by = f", by {dated(start_by, situation.now)} at the latest" if start_by else ""
    return f"it came too late to its start{by}, and it was enqueued with on_late='expire'"


def _finished(situation: Situation) -> str:
    at = situation.job.finished_at
    return f" at {dated(at, situation.now)}" if at else ""


def _since(situation: Situation) -> str:
    at = situation.job.finished_at
    return f" since {dated(at, situation.now)}" if at else ""


_EXPLANATIONS: Mapping[State, Callable[[Situation], str]] = MappingProxyType(
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
