"""Whether all is well, at a glance."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from standfast.admin.alerts import AlertRow, alert_rows, worst_first
from standfast.admin.executor import (
    SELDOM,
    OperationContext,
    all_ages,
    all_queues,
    all_workers,
    board,
    closed_hours,
    late_incidents,
)
from standfast.admin.fields import AnswerStruct, NothingAsked
from standfast.admin.figures import completed_last_minute, last_hour
from standfast.admin.incidents import IncidentRow, incident_row, jobs_of
from standfast.admin.job_search import JobRow, job_row
from standfast.admin.operation import reads
from standfast.admin.schedules import ScheduleRow, read_timetable
from standfast.model.alerts import Alert, AlertState, Severity
from standfast.model.display import counted, span
from standfast.model.incidents import Incident, Trouble
from standfast.model.job import Job
from standfast.model.phrases import Phrase
from standfast.model.states import CLAIMED, Reason, State
from standfast.observe.figures.series import Series
from standfast.observe.obstacles import Windows, queue_closed
from standfast.schedules.closed_hours import ClosedHours
from standfast.stores.values import JobFilter, Queue, QueueAge, QueueAges, Worker


class Level(StrEnum):
    """How it is, all in all."""

    WELL = "well"
    ATTENTION = "attention"
    TROUBLE = "trouble"


class Finding(AnswerStruct, frozen=True, kw_only=True):
    """Something to know: a code with its parameters, a sentence, and where in the dashboard there is more."""

    code: str
    severity: Level
    params: dict[str, str | int | float]
    sentence: Phrase
    href: str


class VerdictSeen(AnswerStruct, frozen=True, kw_only=True):
    """All in all: the worst of the findings, and a sentence."""

    level: Level
    sentence: str
    findings: tuple[Finding, ...]


class QueueShort(AnswerStruct, frozen=True, kw_only=True):
    """A queue in short. `completed` is how many jobs did so in each minute of the last hour, and in this one."""

    name: str
    paused_at: datetime | None
    ready: int
    busy: int
    oldest_age: float | None
    completed: tuple[int, ...]


class OverviewSeen(AnswerStruct, frozen=True, kw_only=True):
    """What a person sees first. Ages are in seconds; `per_minute` is what completed in the last whole minute.

    `alerts` are those that fire and are not silenced, the worst first.
    """

    now: datetime
    verdict: VerdictSeen
    workers_live: int
    workers_total: int
    counts: dict[str, int]
    oldest_due_age: float | None
    per_minute: float | None
    failures: tuple[JobRow, ...]
    schedules: tuple[ScheduleRow, ...]
    incidents: tuple[IncidentRow, ...]
    store_took: float
    queues: tuple[QueueShort, ...] = ()
    alerts: tuple[AlertRow, ...] = ()


# Whether all is well: what was seen, judged. Pure.
#
# Each finding is a code with parameters for programs, and a phrase for people.

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


# What a person sees first: whether all is well, and what is going on.

FEW = 5
"""So many of each kind are shown."""

MANY = 10
"""So many queues."""

COUNTED = 200
"""So many of those that died are counted; of more it is said that there are more."""

_LOOKED_AT = COUNTED + 1
"""So many of the newest dead, and of the blocked, are looked at."""


@reads("overview.show", "/overview")
async def show_overview(desk: OperationContext, asked: NothingAsked) -> OverviewSeen:  # noqa: ARG001 - there is nothing to ask
    """Show whether all is well, and what is going on."""
    ages, took = await all_ages(desk)
    workers = await all_workers(desk)
    queues = await all_queues(desk)
    counts = _counts(queues)
    timetable = await desk.recall("schedules", lambda: read_timetable(desk), SELDOM)
    incidents = await late_incidents(desk)
    figures = await last_hour(desk)
    dead = await _newest(desk, State.DEAD, counts)
    recent = [job for job in dead if job.finished_at and ages.now - job.finished_at <= RECENT_DEATHS]
    blocked = await _newest(desk, State.BLOCKED, counts)
    unknown = sum(job.reason == Reason.NO_WORKER for job in blocked)
    firing = [each for each in worst_first(await board(desk), AlertState.FIRING) if not each.silenced]
    sight = Sight(
        workers=workers,
        ages=ages,
        windows=await closed_hours(desk),
        died=min(len(recent), COUNTED),
        died_more=len(recent) > COUNTED,
        blocked=unknown,
        schedules=timetable.troubled(),
        incidents=incidents,
        alerts=firing,
        took=took,
    )
    latest = [each for each in incidents if ages.now - each.last_at <= RECENT_INCIDENTS][:FEW]
    ids = tuple((each.id, each.count) for each in latest)
    found = await desk.recall(("jobs of", ids), lambda: jobs_of(desk, latest), SELDOM)
    oldest = max((ages.now - each.oldest_due_at for each in ages.queues), default=None)
    return OverviewSeen(
        now=ages.now,
        verdict=judge(sight),
        workers_live=len(sight.live),
        workers_total=len(workers),
        counts={state.value: counts[state] for state in State},
        oldest_due_age=None if oldest is None else max(oldest, timedelta()).total_seconds(),
        per_minute=completed_last_minute(figures),
        failures=tuple(
            job_row(job) for job in sorted(recent, key=lambda job: job.finished_at or ages.now, reverse=True)[:FEW]
        ),
        queues=_busiest(queues, ages, figures),
        schedules=timetable.soonest(ages.now, FEW),
        incidents=tuple(incident_row(each, found) for each in latest),
        store_took=round(took, 4),
        alerts=alert_rows(firing),
    )


def _counts(queues: Iterable[Queue]) -> Mapping[State, int]:
    """Return how many jobs are in each state."""
    counts = dict.fromkeys(State, 0)
    for queue in queues:
        for state, number in queue.states.items():
            counts[state] += number
    return counts


def _busiest(queues: Iterable[Queue], ages: QueueAges, figures: Series) -> tuple[QueueShort, ...]:
    """Return the queues of which there is most to tell, by name: those that are paused, or have the most jobs."""
    oldest = {each.name: (ages.now - each.oldest_due_at).total_seconds() for each in ages.queues}
    done = Counter[str]()
    for point in figures.points:
        for row in point.rows:
            done[row.queue] += row.completed
    told = sorted(queues, key=lambda each: (each.paused_at is None, -_waiting(each), -done[each.name], each.name))[
        :MANY
    ]
    names = {queue.name for queue in told}
    completed = {name: [0] * len(figures.points) for name in names}
    for place, point in enumerate(figures.points):
        for row in point.rows:
            if row.queue in names:
                completed[row.queue][place] += row.completed
    return tuple(
        QueueShort(
            name=queue.name,
            paused_at=queue.paused_at,
            ready=_waiting(queue),
            busy=sum(queue.states.get(state, 0) for state in CLAIMED),
            oldest_age=None if queue.name not in oldest else max(0.0, oldest[queue.name]),
            completed=tuple(completed[queue.name]),
        )
        for queue in sorted(told, key=lambda queue: queue.name)
    )


def _waiting(queue: Queue) -> int:
    return queue.states.get(State.READY, 0)


async def _newest(desk: OperationContext, state: State, counts: Mapping[State, int]) -> tuple[Job, ...]:
    """Return the newest jobs in a state; while there are as many as before, those of not long ago."""
    if not counts[state]:
        return ()
    which = JobFilter(states=(state,), limit=_LOOKED_AT)
    page = await desk.recall(
        (state, counts[state]), lambda: desk.ask(desk.verbs.list_jobs(which, _LOOKED_AT)), SELDOM
    )
    return page.jobs
