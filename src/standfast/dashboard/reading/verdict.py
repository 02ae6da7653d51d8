"""Whether all is well: what was seen, judged. Pure.

Each finding is a code with parameters for programs, and a phrase for people.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from standfast.core.alert import Alert, Severity
from standfast.core.incident import Incident, Trouble
from standfast.dashboard.shapes.overview import Finding, Level, VerdictSeen
from standfast.dashboard.shapes.schedules import ScheduleRow
from standfast.phrases import Phrase
from standfast.schedule.closing import ClosedHours
from standfast.store.protocol import QueueAge, QueueAges, Worker
from standfast.watch.closed import Windows, queue_closed
from standfast.words import counted, span

LATE = timedelta(seconds=10)
"""A due job that waits for so long deserves attention."""

VERY_LATE = timedelta(seconds=60)
"""One that waits for so long is trouble."""

SLOW_STORE = 1.0
"""Seconds that a look at the store may take."""

RECENT_DEATHS = timedelta(hours=1)
RECENT_INCIDENTS = timedelta(days=1)
MANY_DEAD = 100
"""So many jobs that died in the last hour are trouble."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at the store has brought, and how many seconds it took."""

    workers: tuple[Worker, ...]
    ages: QueueAges
    windows: Windows = ()
    died: int = 0
    """How many jobs died in the last hour, and are still dead."""
    died_more: bool = False
    blocked: int = 0
    """How many jobs wait for a worker that knows their task."""
    schedules: Sequence[ScheduleRow] = ()
    incidents: Sequence[Incident] = ()
    alerts: Sequence[Alert] = ()
    """Those that fire, and are not silenced."""
    took: float = 0.0

    @property
    def now(self) -> datetime:
        """The store's time."""
        return self.ages.now

    @property
    def live(self) -> list[Worker]:
        """The workers that live, and can be counted on."""
        return [worker for worker in self.workers if worker.is_live and not worker.info.is_courier]


Params = dict[str, str | int | float]

_SPANS = ("age", "took")
_NUMBERS = {"count": "n"}
"""By which name words have their forms."""


def judge(sight: Sight) -> VerdictSeen:
    """Return what a look means, the worst first."""
    findings = sorted(_findings(sight), key=lambda each: each.severity is not Level.TROUBLE)
    if not findings:
        return VerdictSeen(level=Level.WELL, sentence=_all_well(sight), findings=())
    worst = findings[0].severity
    told = "; ".join(str(each.sentence) for each in findings[:3])
    return VerdictSeen(level=worst, sentence=f"{worst.value.capitalize()}: {told}", findings=tuple(findings))


def _all_well(sight: Sight) -> str:
    oldest = max((sight.now - each.oldest_due_at for each in sight.ages.queues), default=timedelta())
    waits = f"oldest job {span(oldest)}" if oldest > timedelta() else "nothing waits"
    return f"All well: {counted(len(sight.live), 'worker')}, {waits}"


def _findings(sight: Sight) -> Iterator[Finding]:
    live = sight.live
    if not live:
        yield _finding("no_worker", Level.TROUBLE, {}, "/workers")
    lost = len(sight.workers) - len(live)
    if lost and live:
        yield _finding("worker_lost", Level.ATTENTION, {"count": lost}, "/workers")
    yield from _of_queues(sight, live)
    if sight.died:
        severity = Level.TROUBLE if sight.died >= MANY_DEAD else Level.ATTENTION
        more = "more than " if sight.died_more else ""
        yield _finding("died", severity, {"count": sight.died, "more": more}, "/dead")
    if sight.blocked:
        yield _finding("task_unknown", Level.ATTENTION, {"count": sight.blocked}, "/jobs?state=blocked")
    for schedule in sight.schedules:
        yield from _of_schedule(schedule)
    incidents = [
        each
        for each in sight.incidents
        if each.trouble is not Trouble.SNAPSHOT and sight.now - each.last_at <= RECENT_INCIDENTS
    ]
    if incidents:
        yield _finding("incidents", Level.ATTENTION, {"count": len(incidents)}, "/incidents")
    if sight.alerts:
        critical = any(each.severity is Severity.CRITICAL for each in sight.alerts)
        severity = Level.TROUBLE if critical else Level.ATTENTION
        yield _finding("alerts", severity, {"count": len(sight.alerts)}, "/alerts")
    if sight.took > SLOW_STORE:
        yield _finding("store_slow", Level.ATTENTION, {"took": round(sight.took, 2)}, "/settings")


def _of_queues(sight: Sight, live: Sequence[Worker]) -> Iterator[Finding]:
    """Return what is wrong with queues. There may be thousands, also of workers: these are looked at once."""
    any_queue = not live or any(worker.info.queues is None for worker in live)
    served = frozenset(name for worker in live for name in worker.info.queues or ())
    windows: dict[str, list[ClosedHours]] = {}
    for hours in sight.windows:
        windows.setdefault(hours.name, []).append(hours)
    for queue in sight.ages.queues:
        if queue.paused_at is None and queue_closed(windows.get(queue.name, ()), queue.name, sight.now) is not None:
            continue
        yield from _of_queue(queue, sight.now, is_served=any_queue or queue.name in served)


def _of_queue(queue: QueueAge, now: datetime, *, is_served: bool) -> Iterator[Finding]:
    age = now - queue.oldest_due_at
    params: Params = {"queue": queue.name, "age": round(max(age, timedelta()).total_seconds(), 1)}
    href = f"/queues/{queue.name}"
    if queue.paused_at is not None:
        yield _finding("queue_paused", Level.ATTENTION, params, href)
    elif not is_served:
        yield _finding("queue_unserved", Level.TROUBLE, params, href)
    elif age > LATE:
        yield _finding("queue_late", Level.TROUBLE if age > VERY_LATE else Level.ATTENTION, params, href)


def _of_schedule(schedule: ScheduleRow) -> Iterator[Finding]:
    params: Params = {"schedule": schedule.name}
    href = f"/schedules/{schedule.name}"
    if schedule.problem is not None:
        yield _finding("schedule_unreadable", Level.ATTENTION, params, href)
    elif schedule.failing:
        yield _finding("schedule_failing", Level.ATTENTION, params, href)


def _finding(code: str, severity: Level, params: Params, href: str) -> Finding:
    return Finding(code=code, severity=severity, params=params, sentence=_sentence(code, params), href=href)


def _sentence(code: str, params: Params) -> Phrase:
    if params.get("more"):
        return Phrase(f"finding.{code}_more", count=params["count"])
    words = {_NUMBERS.get(name, name): value for name, value in params.items() if name != "more"}
    spans = {name: timedelta(seconds=float(words[name])) for name in _SPANS if name in words}
    return Phrase(f"finding.{code}", **{**words, **spans})
