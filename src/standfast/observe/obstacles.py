"""Why a job is where it is, as a value: a cause for programs, phrases for people, and what would move it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

from standfast.model.display import one_line
from standfast.model.job import Job
from standfast.model.phrases import Dated, Distance, Phrase
from standfast.schedules.closed_hours import About, ClosedHours, Closing
from standfast.schedules.zones import find_zone
from standfast.stores.values import Situation, Worker


class Cause(StrEnum):
    """Why a job is where it is, in a word for programs."""

    NOT_DUE = "not_due"
    RETRY_WAIT = "retry_wait"
    PUT_OFF = "put_off"
    SLEEPING = "sleeping"
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    CLOSED = "closed"
    QUEUE_PAUSED = "queue_paused"
    NO_WORKER = "no_worker"
    NOT_SERVED = "not_served"
    TASK_UNKNOWN = "task_unknown"
    SUSPECT = "suspect"
    BUSY = "busy"
    IN_LINE = "in_line"
    NEXT = "next"
    NOT_TAKEN = "not_taken"
    REPLACING = "replacing"
    BLOCKED = "blocked"
    HELD = "held"
    NOT_STARTED = "not_started"
    RUNNING = "running"
    WORKER_LOST = "worker_lost"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    REPLACED = "replaced"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a job waits for or what became of it: what there is to say, a remedy if there is one, and what else."""

    cause: Cause
    says: Phrase
    remedy: Phrase | None = None
    notes: tuple[Phrase, ...] = ()

    @property
    def text(self) -> str:
        """All of it in English, for people: a few sentences in one line."""
        remedy = "" if self.remedy is None else str(self.remedy)
        remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""
        return one_line(" ".join(filter(None, (str(self.says), remedy, *map(str, self.notes)))))


Windows = Sequence[ClosedHours]


class Closed(NamedTuple):
    """What is closed, and by which closing."""

    hours: ClosedHours
    closing: Closing

    @property
    def what(self) -> Phrase:
        """What is closed, as in `queue 'mail'`."""
        return Phrase(f"closed.{self.hours.about}", name=self.hours.name)

    def until(self, now: datetime) -> Phrase:
        """Return until when it is closed by the clocks of its zone, and why."""
        end, window = self.closing.end, self.closing.window
        zone = find_zone(window.tz)
        there = end.astimezone(zone)
        time = f"{there:%H:%M:%S}" if there.second else f"{there:%H:%M}"
        day = "" if there.date() == now.astimezone(zone).date() else f"{there:%Y-%m-%d} "
        until = Phrase("closed.until", at=f"{day}{time}", zone=window.tz, distance=Distance(end, now))
        return Phrase("closed.because", until=until, reason=one_line(window.reason)) if window.reason else until


def queue_closed(windows: Windows, queue: str, moment: datetime) -> Closed | None:
    """Return what closes a queue at a moment, and longest, if anything does."""
    return _longest((each for each in windows if (each.about, each.name) == (About.QUEUE, queue)), moment)


def job_closed(windows: Windows, job: Job, moment: datetime) -> Closed | None:
    """Return what closes the queue or the task of a job at a moment, and longest, if anything does."""
    whose = {(About.QUEUE, job.queue), (About.TASK, job.task)}
    return _longest((each for each in windows if (each.about, each.name) in whose), moment)


def _longest(windows: Iterable[ClosedHours], moment: datetime) -> Closed | None:
    found = [Closed(hours, closing) for hours in windows if (closing := hours.closed_at(moment)) is not None]
    return max(found, key=lambda each: each.closing.end, default=None)


START_A_WORKER = Phrase("remedy.start_a_worker")
MORE_ROOM = Phrase("remedy.more_room")

OVERDUE = timedelta(seconds=10)
"""Several safety polls: who has a free place takes a due job, and starts one that it holds, long before."""

_MOST_NAMED = 3  # so many workers are named one by one


class Obstacle(NamedTuple):
    """What is in the way, as the second half of a sentence, and what would remove it."""

    cause: Cause
    says: Phrase
    remedy: Phrase | None = None


def obstacle_of(situation: Situation) -> Obstacle:
    """Return what keeps a due job from starting."""
    shut_out = shut_out_by(situation)
    if situation.job.group and (shut_out is None or shut_out.cause is not Cause.QUEUE_PAUSED):
        return _suspect(situation.job, shut_out)
    return shut_out or _line(situation)


def shut_out_by(situation: Situation) -> Obstacle | None:
    """Return what keeps every worker away, if anything does; the first that applies is the one to remove first."""
    queue = situation.job.queue
    if situation.queue_paused_at is not None:
        says = Phrase("obstacle.paused", queue=queue, since=Dated(situation.queue_paused_at, situation.now))
        return Obstacle(Cause.QUEUE_PAUSED, says, Phrase("remedy.resume_queue", queue=queue))
    live = [worker for worker in situation.workers if worker.is_live]
    if not live:
        return Obstacle(Cause.NO_WORKER, _nobody(situation.workers), START_A_WORKER)
    if not any(worker.serves(queue) for worker in live):
        served = ", ".join(sorted({name for worker in live for name in worker.info.queues or ()}))
        says = Phrase("obstacle.not_served", queue=queue, served=served)
        return Obstacle(Cause.NOT_SERVED, says, Phrase("remedy.serve_queue", queue=queue))
    return None


def _suspect(job: Job, shut_out: Obstacle | None) -> Obstacle:
    """Return what a suspect waits for: a child of its supervisor, which may come though no worker is known."""
    says = Phrase("obstacle.suspect", n=job.group - 1) if job.group > 1 else Phrase("obstacle.suspect_alone")
    return Obstacle(Cause.SUSPECT, says, None if shut_out is None else Phrase("remedy.if_none", queue=job.queue))


def _nobody(workers: tuple[Worker, ...]) -> Phrase:
    if not workers:
        return Phrase("obstacle.no_worker")
    return Phrase("obstacle.no_live_worker", silent=min(worker.beat_age for worker in workers))


def _line(situation: Situation) -> Obstacle:
    """Return how a job stands that workers could take: it waits in line, or nobody looks after the line."""
    job = situation.job
    serving = [worker for worker in situation.workers if worker.is_live and worker.serves(job.queue)]
    places = sum(worker.info.concurrency for worker in serving)
    running = sum(worker.running for worker in serving)
    taken = min(running + sum(worker.held for worker in serving), places)
    waited = situation.now - max(job.run_at, job.created_at, min(worker.started_at for worker in serving))
    overdue = waited > OVERDUE and running < places
    who = {"n": len(serving), "places": places}
    limited = Phrase("remedy.limited", look=look_in_log(*serving))
    if overdue and not situation.ahead:
        says = Phrase("obstacle.not_taken", waited=waited, running=running, **who)
        return Obstacle(Cause.NOT_TAKEN, _with_first(says, situation, serving), limited)
    again = Phrase("remedy.as_many", limited=limited) if overdue else None
    if taken >= places:
        says = _with_first(Phrase("obstacle.busy", taken=taken, **who), situation, serving)
        return Obstacle(Cause.BUSY, says, again or MORE_ROOM)
    if situation.ahead:
        says = _with_first(Phrase("obstacle.soon", taken=taken, **who), situation, serving)
        return Obstacle(Cause.IN_LINE, says, again)
    return Obstacle(Cause.NEXT, Phrase("obstacle.next", taken=taken, **who))


def _with_first(says: Phrase, situation: Situation, serving: list[Worker]) -> Phrase:
    """Add what goes first: of its queue, and of queues that its workers name before it."""
    if situation.ahead:
        says = Phrase("obstacle.besides", says=says, also=Phrase("obstacle.ahead", n=situation.ahead))
    before = [_named_before(worker, situation.job.queue) for worker in serving]
    if all(before):
        queues = ", ".join(sorted(set().union(*before)))
        says = Phrase("obstacle.besides", says=says, also=Phrase("obstacle.strict", queues=queues))
    return says


def _named_before(worker: Worker, queue: str) -> frozenset[str]:
    """Return the queues that a worker serves first, if it serves them strictly in the order given."""
    named = worker.info.queues
    return frozenset() if named is None else frozenset(named[: named.index(queue)])


def look_in_log(*workers: Worker) -> Phrase:
    """Return where to look if workers do not do what they should, and for what."""
    if len(workers) > _MOST_NAMED:
        return Phrase("remedy.look_in_log", workers=Phrase("obstacle.so_many_workers", n=len(workers)))
    named = reduce(lambda heads, tail: Phrase("list.next", heads=heads, tail=tail), map(named_worker, workers))
    return Phrase("remedy.look_in_log", workers=named)


def named_worker(worker: Worker) -> Phrase:
    """Return which worker is meant, and where to find it."""
    return Phrase("obstacle.worker", id=worker.info.id, host=worker.info.host, pid=worker.info.pid)
