"""What a look at the store means: is it all well, and how far behind are the queues. Pure.

Nothing in a report names a machine, a URL, a task or an argument.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from standfast.errors import StandfastError
from standfast.model.display import counted, dated, one_line, span, standfast_version
from standfast.model.phrases import Phrase
from standfast.model.records import Kind
from standfast.model.suggestions import closest_name
from standfast.observe.obstacles import MORE_ROOM, START_A_WORKER, Windows, queue_closed
from standfast.schedules.closed_hours import read_windows
from standfast.stores.backend import HasStore
from standfast.stores.doctor import Census, DueQueue, Finding
from standfast.stores.values import QueueAge, QueueAges, Worker


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What a look at the store brought, and how many seconds it took; `problem` if the store did not answer."""

    took: float = 0.0
    workers: tuple[Worker, ...] = ()
    ages: QueueAges | None = None
    windows: Windows = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be well. `warns`: it is worth a look, though work may be sent here all the same."""

    name: str
    ok: bool
    says: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """A queue with due jobs that nobody has claimed: how long the oldest waits, and who wants that, if anybody."""

    age: timedelta
    held_up: str | None = None  # `paused` or `closed`


@dataclass(frozen=True, slots=True)
class Report:
    """How things are. `lag` is the age of the oldest queue that nothing holds up on purpose."""

    checks: tuple[Check, ...]
    at: datetime | None = None
    last_beat: timedelta | None = None  # how long ago the last beat of any worker was
    workers: int = 0
    queues: Mapping[str, QueueHealth] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all is well, so that work may be sent here."""
        return all(check.ok for check in self.checks)

    @property
    def warns(self) -> bool:
        """Whether something is worth a look, though work may be sent here."""
        return any(check.warns for check in self.checks)

    @property
    def lag(self) -> timedelta:
        """How long the job waits that has been due longest, and should be running."""
        late = (queue.age for queue in self.queues.values() if queue.held_up is None)
        return max(late, default=timedelta())

    def fields(self) -> dict[str, Any]:
        """Return the report as JSON has it; spans are seconds."""
        return {
            "status": "ok" if self.ok else "failing",
            "version": standfast_version(),
            "time": self.at,
            "last_beat": None if self.last_beat is None else _seconds(self.last_beat),
            "lag": _seconds(self.lag) if self.at else None,
            "workers": self.workers,
            "queues": {
                name: {"age": _seconds(queue.age), "held_up": queue.held_up} for name, queue in self.queues.items()
            },
            "checks": [
                {"check": check.name, "ok": check.ok, "warns": check.warns, "says": check.says}
                for check in self.checks
            ],
        }


def assess(seen: StoreStatus, *, warm: bool | None = None) -> Report:
    """Return what a look means; `warm` is whether the worker of this very process works, if it is to have one."""
    if seen.ages is None:
        store = Check("store", ok=False, says=f"the store {seen.problem}")
        return Report((store,) if warm is None else (store, _of_this_process(warm=warm)))
    fleet = [worker for worker in seen.workers if not worker.info.is_courier]
    live = sum(worker.is_live for worker in fleet)
    store = Check("store", ok=True, says=f"answered within {span(timedelta(seconds=seen.took))}")
    if warm is None:
        workers = Check(
            "workers", ok=live > 0, says=f"{counted(live, 'live worker')}" if live else "no live worker"
        )
    else:
        workers = _of_this_process(warm=warm)
    return Report(
        (store, workers, *_unknown(seen.ages)),
        seen.ages.now,
        min((worker.beat_age for worker in fleet), default=None),
        live,
        {queue.name: _queue_health(queue, seen.ages.now, seen.windows) for queue in seen.ages.queues},
    )


def _unknown(ages: QueueAges) -> Iterator[Check]:
    """Yield that jobs wait whose task no worker knows: to restart anything here would not help them."""
    if ages.unknown:
        tasks = {age.task for age in ages.unknown}
        waits = ages.now - min(age.oldest_due_at for age in ages.unknown)
        says = f"jobs of {counted(len(tasks), 'task')} wait that no worker knows, the oldest for {span(waits)}"
        yield Check("tasks", ok=True, says=f"{says}: see `standfast doctor`", warns=True)


def _of_this_process(*, warm: bool) -> Check:
    return Check("worker", ok=warm, says="works" if warm else "does not work, or not yet")


def _queue_health(queue: QueueAge, now: datetime, windows: Windows) -> QueueHealth:
    closed = queue_closed(windows, queue.name, now) is not None
    held_up = "paused" if queue.paused_at is not None else "closed" if closed else None
    return QueueHealth(max(timedelta(), now - queue.oldest_due_at), held_up)


def _seconds(length: timedelta) -> float:
    return round(length.total_seconds(), 3)


LONG_WAIT = timedelta(minutes=5)  # how long a due job may wait before it is worth a word
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
    meant = None if task in known else closest_name(task, known)
    return "" if meant is None else f", did you mean '{meant}'?"


def _dead(census: Census) -> Finding:
    if not census.dead:
        return Finding.ok("dead", "no job is dead")
    says = f"{counted(census.dead, 'job is', 'jobs are')} dead, and kept until somebody decides"
    return Finding.warning("dead", says, "`standfast dead list` says why; then `standfast dead retry` or `discard`")


log = logging.getLogger(__name__)

S = TypeVar("S")

EVERY = 1.0  # seconds between the beginnings of two looks
PATIENCE = 3.0  # seconds after which a store that has not answered is not waited for any longer
_SILENT = "does not answer"
_FAILED = "cannot be used"


def read_store_status(asked: HasStore) -> StoreStatus:
    """Ask the store for all that a report says."""
    began_at = time.monotonic()
    workers = asked.call(asked.verbs.workers())
    ages = asked.call(asked.verbs.queue_ages())
    windows = asked.call(asked.verbs.records(Kind.WINDOW))
    return StoreStatus(time.monotonic() - began_at, workers, ages, read_windows(windows))


@dataclass(frozen=True, slots=True)
class _Look(Generic[S]):
    began_at: float
    seen: Future[S] = field(default_factory=Future)


class CachedRead(Generic[S]):
    """A slow read for all who ask: one at a time, one a second at most, and nobody waits for it for long.

        none ─(somebody asks)─► going on ─(the store answers)─► seen ─(asked again, a second later)─► going on …
                                └─(too long)─► whoever asks is told so at once, until it has ended

    Any thread, and any event loop, may ask. `problem` makes what is told to those who ask while the store does not
    answer, of what is wrong with it.
    """

    def __init__(
        self,
        look: Callable[[], S],
        problem: Callable[[str], S],
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._silent, self._failed = problem(_SILENT), problem(_FAILED)
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Look[S] | None = None
        self._problem: str | None = None

    def seen(self) -> S:
        """Return what the store said a second ago at most, or that it does not answer."""
        last, left = self._current()
        try:
            return last.seen.result(left)
        except TimeoutError:
            return self._silent

    async def aseen(self) -> S:
        """Do as `seen` does, without blocking the event loop and without a thread for each who waits."""
        last, left = self._current()
        if not (left or last.seen.done()):
            return self._silent  # nobody who comes while it hangs leaves anything behind at the look
        waiting = asyncio.wrap_future(last.seen)
        done, _ = await asyncio.wait([waiting], timeout=left)
        return waiting.result() if done else self._silent

    def _current(self) -> tuple[_Look[S], float]:
        """Return the look to wait for, and for how long."""
        with self._lock:
            now = self._clock()
            if self._last is None or (self._last.seen.done() and now - self._last.began_at >= EVERY):
                self._last = _Look(now)
                self._begin(self._last.seen)
            return self._last, max(0.0, self._last.began_at + self._patience - now)

    def _begin(self, seen: "Future[S]") -> None:
        try:
            threading.Thread(target=self._go, args=(seen,), name="standfast-health", daemon=True).start()
        except RuntimeError as error:  # there are too many, or no memory for one more: the next look may have it
            self._tell(str(error))
            seen.set_result(self._failed)

    def _go(self, seen: "Future[S]") -> None:
        try:
            found, problem = self._look(), None
        except StandfastError as error:
            found, problem = self._failed, str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are to be told
            found, problem = self._failed, f"internal error: {type(error).__name__}"
        self._tell(problem)
        seen.set_result(found)

    def _tell(self, problem: str | None) -> None:
        """Log what is wrong when it begins, and when it is over: answers do not say it."""
        if problem is not None and self._problem is None:
            log.warning("health: the store cannot be asked: %s", problem)
        elif problem is None and self._problem is not None:
            log.info("health: the store answers again")
        self._problem = problem
