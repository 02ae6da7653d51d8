"""What a round looks at: a few reads of the store, and what its process measures itself.

A round looks only at what some rule is about. What costs more than a read or two is looked at when there is a
reason: jobs ended since the last look, jobs run, something went wrong nearby.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.alerts.breach import is_about
from standfast.alerts.standing import Missed
from standfast.core.alert import Alert, AlertRule, Check
from standfast.core.incident import Incident
from standfast.core.job import Attempt, Job
from standfast.core.record import Fire, Kind, Record, read_body
from standfast.core.states import State
from standfast.figures.reading import read_figures
from standfast.figures.series import Series
from standfast.ids import first_id_at
from standfast.schedule.closing import About, ClosedHours
from standfast.schedule.plan import read_schedules
from standfast.schedule.published import read_windows
from standfast.store.errand import Verbs
from standfast.store.examination import Finding
from standfast.store.protocol import DueRecords, JobFilter, QueueAges, Store, Worker

Burns = Mapping[str, tuple[float, float]]
"""By objective, how many times too fast its budget is spent: in the fast windows, and in the slow ones."""

FIGURED = frozenset({Check.START_LAG, Check.FAILURE_RATE, Check.DEAD_LETTERS})
"""What is told by figures."""

LATE_SCHEDULES = 200
FIRES = 500
FIRES_PAGES = 4
RUNNING = 500
RUNNING_PAGES = 10
"""How many jobs that run are looked at, the newest: so many pages of so many."""
BEGINNINGS = 100
"""Of how many jobs one look finds out when they began."""
TIMEOUT_MARGIN = 10.0
"""Seconds by which a job may exceed its timeout: its worker may be about to stop it."""


LONG_WITHOUT_TIMEOUT = 3600.0
"""Seconds after which a job of a task without a timeout may hang."""

MANY_DEAD = 10_000
"""How many dead jobs are many, where neither a rule nor a setting says so: more than people look through."""
NEARLY = 0.8
"""The share of `keep_dead` from which on they are told to be nearly as many."""
GOING = 0.1
GOING_AT_MOST = timedelta(days=1)
"""The share of `keep_dead_for` before its end in which a dead job is told to go soon, and how long at most."""
GOING_SEEN = 200
"""How many of those are looked at, the newest."""


@dataclass(frozen=True, slots=True)
class Dead:
    """How many jobs are dead, which of them will soon be removed, the first one first, and the bounds."""

    jobs: int
    going: tuple[Job, ...]
    keep: int | None
    keep_for: timedelta | None


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs, and since when."""

    job: Job
    since: datetime


@dataclass(frozen=True, slots=True)
class Late:
    """A schedule that is due, and the first planned time that nobody has decided about."""

    schedule: str
    planned: datetime


@dataclass(frozen=True, slots=True)
class Looks:
    """What was seen, by the store's time `now`. What was not looked at is None.

    `missed` are workers that were given up; `hosts`: the machines with living workers. `watched_since`: since when
    whoever looks has been there without a gap: of whom was silent before, it knows nothing.
    """

    now: datetime
    watched_since: datetime
    workers: tuple[Worker, ...] | None = None
    missed: tuple[Missed, ...] = ()
    hosts: AbstractSet[str] = frozenset()
    ages: QueueAges | None = None
    closed: tuple[ClosedHours, ...] = ()
    figures: Series | None = None
    dead: Dead | None = None
    late: tuple[Late, ...] | None = None
    fires: tuple[Fire, ...] | None = None
    running: tuple[Running, ...] | None = None
    timeouts: Mapping[str, float | None] = field(default_factory=dict)
    incidents: tuple[Incident, ...] | None = None
    burns: Burns | None = None
    store_seconds: float | None = None
    findings: tuple[Finding, ...] | None = None
    disks: Mapping[str, float] | None = None

    def is_elsewhere(self, alert: Alert) -> bool:
        """Tell whether only others see what an alert is about: the disk of another machine that is there."""
        if alert.check is not Check.DISK_FULL:
            return False
        here = {_host_of(place) for place in self.disks or ()}
        return _host_of(alert.subject) in self.hosts - here


def _host_of(place: str) -> str:
    return place.partition(":")[0]


class Beginnings:
    """Remembers since when claims run: a job of which that is known is not asked about again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], datetime] = {}

    def look(self, verbs: Store, jobs: Sequence[Job], now: datetime) -> Verbs[tuple[Running, ...]]:
        """Return since when jobs run; what cannot be found out this time is left out."""
        known = {key: since for job in jobs if (since := self._known.get(key := (job.id, job.fence))) is not None}
        unknown = [job for job in jobs if (job.id, job.fence) not in known]
        for job in sorted(unknown, key=lambda each: each.run_at)[:BEGINNINGS]:
            history: tuple[Attempt, ...] = yield verbs.history(job.id)
            for attempt in history:
                if attempt.fence == job.fence:
                    known[job.id, job.fence] = attempt.started_at or now
        self._known = known
        return tuple(Running(job, known[key]) for job in jobs if (key := (job.id, job.fence)) in known)


def look_at_closed(verbs: Store, ages: QueueAges, rules: Iterable[AlertRule]) -> Verbs[tuple[ClosedHours, ...]]:
    """Return the windows of queues, if some queue is old: it may be closed."""
    least = min((rule.above or 0.0 for rule in rules if rule.check is Check.QUEUE_AGE), default=None)
    if least is None or all((ages.now - each.oldest_due_at).total_seconds() <= least for each in ages.queues):
        return ()
    records: Sequence[Record] = yield verbs.records(Kind.WINDOW)
    return tuple(each for each in read_windows(records) if each.about is About.QUEUE)


def look_at_figures(verbs: Store, rules: Iterable[AlertRule], now: datetime) -> Verbs[Series]:
    """Return the figures of the longest time that a rule looks back."""
    longest = max(rule.over for rule in rules if rule.check in FIGURED)
    series = yield from read_figures(verbs, now - timedelta(seconds=longest), step=timedelta(minutes=1)).steps
    return series


def look_at_dead(verbs: Store, keep: int | None, keep_for: float | None, now: datetime) -> Verbs[Dead]:
    """Return how many jobs are dead, and those that will soon be removed, as ids and jobs go by time."""
    counts: Mapping[State, int] = yield verbs.count()
    if keep_for is None or not counts[State.DEAD]:
        return Dead(counts[State.DEAD], (), keep, None)
    age = timedelta(seconds=keep_for)
    died_by = now - age + min(GOING * age, GOING_AT_MOST)
    which = JobFilter(states=(State.DEAD,), before=first_id_at(died_by), limit=GOING_SEEN)
    jobs: tuple[Job, ...] = yield verbs.list_jobs(which)
    going = [(job.finished_at, job) for job in jobs if job.finished_at is not None and job.finished_at <= died_by]
    going.sort(key=lambda each: each[0])
    return Dead(counts[State.DEAD], tuple(job for _, job in going), keep, age)


def many_dead(rule: AlertRule, keep: int | None) -> float:
    """Return beyond how many dead jobs a rule is broken."""
    if rule.above is not None:
        return rule.above
    return MANY_DEAD if keep is None else NEARLY * keep


def look_at_late(verbs: Store) -> Verbs[tuple[Late, ...]]:
    """Return the schedules that are due and that nobody has decided about, by the times that are planned."""
    due: DueRecords = yield verbs.due_records(Kind.SCHEDULE, timedelta(), LATE_SCHEDULES)
    return tuple(Late(record.name, _planned(record, due.now)) for record in due.records)


def _planned(record: Record, now: datetime) -> datetime:
    """Return for when a schedule is planned next: its record is due some seconds before that.

    It is that of the record itself where a fire waits for the end of a run, or where nobody can read it.
    """
    due_at = record.due_at or now
    schedules, _ = read_schedules((record,))
    if not schedules or schedules[0].plan.waiting:
        return due_at
    plan = schedules[0].plan
    try:
        return max(due_at, next(plan.rule.times_after(plan.cursor, schedules[0].ground), due_at))
    except Exception:  # noqa: BLE001 - a plan that means nothing is late all the same
        return due_at


def look_at_fires(verbs: Store) -> Verbs[tuple[Fire, ...]]:
    """Return the fires that were decided about, the latest planned ones."""
    found: list[Fire] = []
    before: datetime | None = None
    for _ in range(FIRES_PAGES):
        fires: tuple[Fire, ...] = yield verbs.fires(None, FIRES, before)
        found += fires
        if len(fires) < FIRES:
            break
        before = fires[-1].planned
    return tuple(found)


def look_at_running(
    verbs: Store,
    rules: Iterable[AlertRule],
    timeouts: Mapping[str, float | None],
    beginnings: Beginnings,
    now: datetime,
) -> Verbs[tuple[Running, ...]]:
    """Return the jobs that run, of those that may have run for too long, and since when."""
    rules = [rule for rule in rules if rule.check is Check.JOB_TOO_LONG]
    suspects: list[Job] = []
    which = JobFilter(states=(State.RUNNING,), limit=RUNNING)
    for _ in range(RUNNING_PAGES):
        jobs: tuple[Job, ...] = yield verbs.list_jobs(which)
        for job in jobs:
            limits = [limit for rule in rules if (limit := longest_run(rule, job, timeouts)) is not None]
            if limits and now - job.run_at > timedelta(seconds=min(limits)):
                suspects.append(job)
        if len(jobs) < RUNNING:
            break
        which = replace(which, before=jobs[-1].id)
    return (yield from beginnings.look(verbs, suspects, now))


def longest_run(rule: AlertRule, job: Job, timeouts: Mapping[str, float | None]) -> float | None:
    """Return for how many seconds a job may run by a rule; None where the rule says nothing about it.

    Of tasks of other apps those know the timeouts that look for them.
    """
    if not is_about(rule, job.queue, job.task):
        return None
    if rule.above is not None:
        return rule.above
    if job.task not in timeouts:
        return None
    timeout = timeouts[job.task]
    return LONG_WITHOUT_TIMEOUT if timeout is None else timeout + TIMEOUT_MARGIN


def look_at_incidents(verbs: Store) -> Verbs[tuple[Incident, ...]]:
    """Return what went wrong, the newest first."""
    records: Sequence[Record] = yield verbs.records(Kind.INCIDENT)
    incidents = [each for record in records if (each := read_body(record, Incident)) is not None]
    return tuple(sorted(incidents, key=lambda each: (each.last_at, each.id), reverse=True))
