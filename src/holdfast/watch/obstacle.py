"""What keeps a due job from starting, and how to remove it. Pure."""

from datetime import timedelta
from typing import NamedTuple

from holdfast.store.protocol import Situation, Worker
from holdfast.watch.explanation import Cause
from holdfast.words import counted, dated, span

START_A_WORKER = "start one with `holdfast worker MODULE:APP`"
MORE_ROOM = "run more workers, or raise --concurrency"

OVERDUE = timedelta(seconds=10)
"""Several safety polls: who has a free place takes a due job, and starts one that it holds, long before."""

_SUSPICION = "a handler may block its event loop, the store may be locked, or its clock may be behind"
_LIMITED = "a limit or peak of its task, its queue or a gate may be reached there, which only they know; else"
_MOST_NAMED = 3
"""So many workers are named one by one."""


class Obstacle(NamedTuple):
    """What is in the way, as the second half of a sentence, and what would remove it."""

    cause: Cause
    says: str
    remedy: str | None = None


def obstacle_of(situation: Situation) -> Obstacle:
    """Return what keeps a due job from starting."""
    shut_out = shut_out_by(situation)
    if shut_out is not None:
        return shut_out
    job = situation.job
    if job.alone:
        crashes = counted(job.crashes, "crash", "crashes")
        says = f"it was running when a worker crashed ({crashes}), so it waits to run in a process of its own"
        return Obstacle(Cause.SUSPECT, says)
    return _line(situation)


def shut_out_by(situation: Situation) -> Obstacle | None:
    """Return what keeps every worker away, if anything does; the first that applies is the one to remove first."""
    queue = situation.job.queue
    if situation.queue_paused_at is not None:
        since = dated(situation.queue_paused_at, situation.now)
        resume = f"`holdfast queues resume {queue}` lets it go on"
        return Obstacle(Cause.QUEUE_PAUSED, f"queue '{queue}' is paused since {since}", resume)
    live = [worker for worker in situation.workers if worker.is_live]
    if not live:
        return Obstacle(Cause.NO_WORKER, _nobody(situation.workers), START_A_WORKER)
    if not any(worker.serves(queue) for worker in live):
        served = ", ".join(sorted({name for worker in live for name in worker.info.queues or ()}))
        says = f"no running worker serves queue '{queue}' (served: {served})"
        return Obstacle(Cause.NOT_SERVED, says, f"start one with `holdfast worker MODULE:APP --queues {queue}`")
    return None


def _nobody(workers: tuple[Worker, ...]) -> str:
    if not workers:
        return "no worker is running"
    last = min(worker.beat_age for worker in workers)
    return f"no worker is alive (the last one gave its last sign of life {span(last)} ago)"


def _line(situation: Situation) -> Obstacle:
    """Return how a job stands that workers could take: it waits in line, or nobody looks after the line."""
    job = situation.job
    serving = [worker for worker in situation.workers if worker.is_live and worker.serves(job.queue)]
    places = sum(worker.info.concurrency for worker in serving)
    running = sum(worker.running for worker in serving)
    taken = min(running + sum(worker.held for worker in serving), places)
    who, how = f"the {counted(len(serving), 'worker')} serving its queue", f"({taken} of {places} places taken)"
    waited = situation.now - max(job.run_at, job.created_at, min(worker.started_at for worker in serving))
    overdue = waited > OVERDUE and running < places
    first = _who_goes_first(situation, serving)
    if overdue and not situation.ahead:
        has = "has" if len(serving) == 1 else "have"
        says = f"{who} {has} not taken it for {span(waited)}, though only {running} of {places} places run a job"
        return Obstacle(Cause.NOT_TAKEN, f"{says}{first}", f"{_LIMITED} {look_in_log(*serving)}")
    again = f"ask again: if as many go first then, {_LIMITED} {look_in_log(*serving)}" if overdue else None
    if taken >= places:
        says = f"{who} {'is' if len(serving) == 1 else 'are'} busy {how}{first}"
        return Obstacle(Cause.BUSY, says, again or MORE_ROOM)
    if situation.ahead:
        return Obstacle(Cause.IN_LINE, f"{who} will take it soon {how}{first}", again)
    return Obstacle(Cause.NEXT, f"it is the next of its queue: {who} will take it any moment {how}")


def _who_goes_first(situation: Situation, serving: list[Worker]) -> str:
    """Return what goes first: of its queue, and of queues that its workers name before it."""
    told = []
    if ahead := situation.ahead:
        jobs = f"{counted(ahead, 'job')} of its queue with a higher priority or longer waiting"
        told.append(f"{jobs} {'goes' if ahead == 1 else 'go'} first")
    before = [_named_before(worker, situation.job.queue) for worker in serving]
    if all(before):
        told.append(f"with --strict, those of {', '.join(sorted(set().union(*before)))} go before")
    return "".join(f"; {each}" for each in told)


def _named_before(worker: Worker, queue: str) -> frozenset[str]:
    """Return the queues that a worker serves first, if it serves them strictly in the order given."""
    named = worker.info.queues
    return frozenset() if named is None else frozenset(named[: named.index(queue)])


def look_in_log(*workers: Worker) -> str:
    """Return where to look if workers do not do what they should, and for what."""
    named = f"the {len(workers)} workers" if len(workers) > _MOST_NAMED else ", ".join(map(named_worker, workers))
    return f"look in the log of {named}: {_SUSPICION}"


def named_worker(worker: Worker) -> str:
    """Return which worker is meant, and where to find it."""
    return f"worker {worker.info.id} (host {worker.info.host}, pid {worker.info.pid})"
