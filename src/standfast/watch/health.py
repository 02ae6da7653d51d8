"""What a census of a store means: is anybody there, does something wait in vain, is the clock right. Pure."""

from collections.abc import Collection, Iterator
from datetime import timedelta

from standfast.phrases import Phrase
from standfast.schedule.published import read_windows
from standfast.spelling import nearest
from standfast.store.examination import Census, DueQueue, Finding
from standfast.store.protocol import Worker
from standfast.watch.closed import queue_closed
from standfast.watch.obstacle import MORE_ROOM, START_A_WORKER
from standfast.words import counted, dated, one_line, span

LONG_WAIT = timedelta(minutes=5)
"""How long a due job may wait before it is worth a word."""

CLOCK_TOLERANCE = timedelta(seconds=10)
"""How far a time of the past may lie ahead before the clock must have been set back."""

_PLAUSIBLE_YEARS = range(2025, 2200)


def judge_census(census: Census, tasks: Collection[str] = ()) -> Iterator[Finding]:
    """Yield what is to be said about a store at work. `tasks` are those that an app knows."""
    yield _clock(census)
    live = [worker for worker in census.workers if worker.is_live and not worker.info.is_courier]
    yield _workers(census, live)
    yield from _queues(census, live)
    yield _blocked(census, tasks)
    yield _dead(census)


def _clock(census: Census) -> Finding:
    now, latest = census.now, census.latest_at
    if now.year not in _PLAUSIBLE_YEARS:
        return Finding.problem("clock", f"it is not the year {now.year}", "set the machine's clock")
    if latest is not None and latest > now + CLOCK_TOLERANCE:
        return Finding.problem(
            "clock",
            f"the store has seen {dated(latest, now)}: the clock was set back, or was wrong before",
            "set it right; jobs enqueued by the wrong clock wait until their time has come",
        )
    return Finding.ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC; the store has seen no later time")


def _workers(census: Census, live: list[Worker]) -> Finding:
    lost = len(census.workers) - len(live)
    if not live:
        gone = f" ({counted(lost, 'lost one is', 'lost ones are')} still registered)" if lost else ""
        return Finding.warning("workers", f"no worker is running{gone}", str(START_A_WORKER))
    places = sum(worker.info.concurrency for worker in live)
    taken = sum(worker.held + worker.running for worker in live)
    oldest = max(worker.beat_age for worker in live)
    says = f"{counted(len(live), 'worker')} live, {taken} of {places} places taken, oldest beat {span(oldest)} ago"
    if lost:
        remedy = "nothing to do: the jobs of lost workers go back when another has lived for a lease"
        return Finding.warning("workers", f"{says}; {lost} lost", remedy)
    return Finding.ok("workers", says)


def _queues(census: Census, live: list[Worker]) -> Iterator[Finding]:
    if not census.due:
        yield Finding.ok("queues", "no due job waits")
    for queue in census.due:
        yield _queue(queue, census, live)


def _queue(queue: DueQueue, census: Census, live: list[Worker]) -> Finding:
    waits = census.now - queue.oldest_due_at
    says = f"'{queue.name}': {counted(queue.due, 'due job')}, the oldest for {span(waits)}"
    if queue.paused_at is not None:
        since = f"{says}, and the queue is paused since {dated(queue.paused_at, census.now)}"
        resume = Phrase("remedy.resume_queue", queue=queue.name)
        return Finding.warning("queues", since, str(resume))
    closed = queue_closed(read_windows(census.windows), queue.name, census.now)
    if closed is not None:
        return Finding.ok("queues", f"{says}, and the queue is closed until {closed.until(census.now)}")
    if not any(worker.serves(queue.name) for worker in live):
        start = Phrase("remedy.serve_queue", queue=queue.name) if live else START_A_WORKER
        return Finding.problem("queues", f"{says}, and no running worker serves it", str(start))
    if waits > LONG_WAIT:
        return Finding.warning("queues", says, str(MORE_ROOM))
    return Finding.ok("queues", says)


def _blocked(census: Census, known: Collection[str]) -> Finding:
    if not census.unknown:
        return Finding.ok("blocked", "no job waits for a worker that knows its task")
    tasks = ", ".join(
        f"'{one_line(task.name)}' (payload version {task.version}, {counted(task.jobs, 'job')}"
        f"{_meant(task.name, known)})"
        for task in census.unknown
    )
    return Finding.warning(
        "blocked",
        f"workers that do not know them have put aside {tasks}",
        "deploy or start a worker that registers them; `standfast jobs list --state blocked` shows the jobs",
    )


def _meant(task: str, known: Collection[str]) -> str:
    """Return which task a misspelt one may be."""
    meant = None if task in known else nearest(task, known)
    return "" if meant is None else f", did you mean '{meant}'?"


def _dead(census: Census) -> Finding:
    if not census.dead:
        return Finding.ok("dead", "no job is dead")
    says = f"{counted(census.dead, 'job is', 'jobs are')} dead, and kept until somebody decides"
    return Finding.warning("dead", says, "`standfast dead list` says why; then `standfast dead retry` or `discard`")
