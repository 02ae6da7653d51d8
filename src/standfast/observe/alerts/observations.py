"""What a round looks at: a few reads of the store, and what its process measures itself.

A round looks only at what some rule is about. What costs more than a read or two is looked at when there is a reason:
jobs ended since the last look, jobs run, something went wrong nearby.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.model.alerts import Alert, AlertRule, AlertState, Check, Example, Severity
from standfast.model.display import one_line
from standfast.model.ids import first_id_at
from standfast.model.incidents import Incident
from standfast.model.job import Attempt, Job
from standfast.model.records import Decision, Fire, FireCause, Kind, Record
from standfast.model.states import Reason, State
from standfast.observe.alerts.board import Missed
from standfast.observe.alerts.delivery import DELIVER, QUEUE
from standfast.observe.figures.series import Series, read_figures
from standfast.schedules.closed_hours import About, ClosedHours, read_windows
from standfast.schedules.schedule import Schedule, read_schedules
from standfast.stores.contract import Store, count_states
from standfast.stores.doctor import Finding
from standfast.stores.values import DueRecords, JobFilter, JobPage, QueueAges, Worker
from standfast.stores.verb import Verbs

Key = tuple[str, str]  # a rule and a subject, by their names
Burns = Mapping[str, tuple[float, float]]
"""By objective, how many times too fast its budget is spent: in the fast windows, and in the slow ones."""

FIGURED = frozenset({Check.START_LAG, Check.FAILURE_RATE, Check.DEAD_LETTERS})  # what is told by figures
MOST_SUBJECTS = 100  # how many subjects of one rule have alerts of their own; the rest is one
MOST_ALERTS = 5_000  # about how many alerts there are of all rules: where many are broken, each may have fewer
OTHERS = "others"  # the subject of those that are too many
EXAMPLES = 5  # how many examples are named
SPAN = 2000  # how many jobs a search for examples looks at
MOST_SEARCHES = 10  # for how many breaches one round searches
SHORT = 200
LATE_SCHEDULES = 200
FIRES, FIRES_PAGES = 500, 4
RUNNING, RUNNING_PAGES = 500, 10  # how many jobs that run are looked at, the newest: so many pages of so many
BEGINNINGS = 100  # of how many jobs one look finds out when they began
TIMEOUT_MARGIN = 10.0  # seconds by which a job may exceed its timeout: its worker may be about to stop it
LONG_WITHOUT_TIMEOUT = 3600.0  # seconds after which a job of a task without a timeout may hang

MANY_DEAD = 10_000
"""How many dead jobs are many, where neither a rule nor a setting says so: more than people look through."""
NEARLY = 0.8  # the share of `keep_dead` from which on they are told to be nearly as many
GOING, GOING_AT_MOST = 0.1, timedelta(days=1)
"""The share of `keep_dead_for` before its end in which a dead job is told to go soon, and how long at most."""
GOING_SEEN = 200  # how many of those are looked at, the newest

MOST = 20
"""Of how many fires one look asks when their jobs started: of each schedule the last, and of these the latest."""
ASKED_FOR = timedelta(minutes=15)
"""So long it is asked again whether a job has started: what waits longer does so because of its queue."""

_STATES: Mapping[Check, tuple[State, ...]] = {
    Check.DEAD_LETTERS: (State.DEAD,),
    Check.FAILURE_RATE: (State.DEAD, State.SCHEDULED),
    Check.TASK_UNKNOWN: (State.BLOCKED,),
}


@dataclass(frozen=True, slots=True)
class Breach:
    """Who breaks which rule: what is said of it, what was measured, how many are concerned, and some of them.

    `severity` is that of the rule, unless this one is worse. `happened_at` are the times of all incidents of this
    kind that are known, also of those that the rule does not look back to any more.
    """

    rule: AlertRule
    subject: str
    says: str
    value: float | None = None
    count: int = 1
    examples: tuple[Example, ...] = ()
    severity: Severity | None = None
    happened_at: tuple[datetime, ...] = ()

    @property
    def key(self) -> Key:
        """Which alert it belongs to."""
        return self.rule.name, self.subject


def is_about(rule: AlertRule, queue: str, task: str | None = None) -> bool:
    """Tell whether a rule is about jobs of a queue and task.

    Deliveries are left out unless it names them: else people would be told of what could not be told, and so on.
    """
    named = rule.queue == QUEUE or rule.task == DELIVER
    return rule.queue in {None, queue} and (task is None or rule.task in {None, task}) and (queue != QUEUE or named)


def by_key(breaches: Iterable[Breach], known: AbstractSet[Key]) -> Mapping[Key, Breach]:
    """Return breaches by their keys. Of a rule with very many, those that are known and the worst are kept."""
    of_rules: dict[str, list[Breach]] = {}
    for breach in breaches:
        of_rules.setdefault(breach.rule.name, []).append(breach)
    most = min(MOST_SUBJECTS, MOST_ALERTS // max(len(of_rules), 1))
    return {breach.key: breach for some in of_rules.values() for breach in _bounded(some, known, most)}


def _bounded(breaches: list[Breach], known: AbstractSet[Key], most: int) -> Iterator[Breach]:
    if len(breaches) <= most:
        yield from breaches
        return
    ranked = sorted(breaches, key=lambda each: (each.key not in known, -(each.value or 0.0), each.subject))
    yield from ranked[:most]
    rest = ranked[most:]
    examples = tuple(example for each in rest[:EXAMPLES] for example in each.examples[:1])
    says = f"{len(rest):,} more, such as: {rest[0].says}"
    count = sum(each.count for each in rest)
    worst = next((each.severity for each in rest if each.severity is Severity.CRITICAL), None)
    yield Breach(rest[0].rule, OTHERS, says, rest[0].value, count, examples, worst)


class QueueCoverage:
    """The queues that workers serve; `everything`: some of them serve whatever queue there is."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        served = [worker.info.queues for worker in workers]
        self.everything = None in served
        self._named = frozenset(queue for queues in served for queue in queues or ())

    def __contains__(self, queue: str) -> bool:
        return self.everything or queue in self._named


def with_examples(
    verbs: Store, breaches: Iterable[Breach], alerts: Mapping[Key, Alert]
) -> Verbs[tuple[Breach, ...]]:
    """Return breaches with examples: for those that begin, and are about jobs by their state, some are searched."""
    found, searches = [], 0
    for breach in breaches:
        alert = alerts.get(breach.key)
        fresh = alert is None or alert.state is AlertState.RESOLVED or not alert.examples
        if breach.rule.check in _STATES and fresh and searches < MOST_SEARCHES:
            searches += 1
            breach = dataclasses.replace(breach, examples=(yield from _search(verbs, breach)))  # noqa: PLW2901 - the same, and more
        found.append(breach)
    return tuple(found)


def _search(verbs: Store, breach: Breach) -> Verbs[tuple[Example, ...]]:
    rule = breach.rule
    by_queue = rule.task is None and rule.queue is not None and rule.check is not Check.TASK_UNKNOWN
    which = JobFilter(
        states=_STATES[rule.check], queue=rule.queue, task=None if by_queue else breach.subject, limit=4 * EXAMPLES
    )
    page: JobPage = yield verbs.list_jobs(which, SPAN)
    found = [job for job in page.jobs if job.error or job.reason == Reason.NO_WORKER]
    return tuple(Example("job", job.id, one_line(job.error or "", SHORT)) for job in found[:EXAMPLES])


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
class Observations:
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
    late: tuple[tuple[str, datetime], ...] | None = None  # schedules that are due, and for when
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
    back = now - timedelta(seconds=longest)
    return (yield from read_figures(verbs, back, step=timedelta(minutes=1)).steps)


def look_at_dead(verbs: Store, keep: int | None, keep_for: float | None, now: datetime) -> Verbs[Dead]:
    """Return how many jobs are dead, and those that will soon be removed, as ids and jobs go by time."""
    counts: Mapping[State, int] = yield count_states(verbs)
    if keep_for is None or not counts[State.DEAD]:
        return Dead(counts[State.DEAD], (), keep, None)
    age = timedelta(seconds=keep_for)
    died_by = now - age + min(GOING * age, GOING_AT_MOST)
    which = JobFilter(states=(State.DEAD,), before=first_id_at(died_by), limit=GOING_SEEN)
    page: JobPage = yield verbs.list_jobs(which)
    going = [
        (job.finished_at, job) for job in page.jobs if job.finished_at is not None and job.finished_at <= died_by
    ]
    going.sort(key=lambda each: each[0])
    return Dead(counts[State.DEAD], tuple(job for _, job in going), keep, age)


def many_dead(rule: AlertRule, keep: int | None) -> float:
    """Return beyond how many dead jobs a rule is broken."""
    if rule.above is not None:
        return rule.above
    return MANY_DEAD if keep is None else NEARLY * keep


def look_at_late(verbs: Store) -> Verbs[tuple[tuple[str, datetime], ...]]:
    """Return the schedules that are due and that nobody has decided about, by the times that are planned."""
    due: DueRecords = yield verbs.due_records(Kind.SCHEDULE, timedelta(), LATE_SCHEDULES)
    return tuple((record.name, _planned(record, due.now)) for record in due.records)


def _planned(record: Record, now: datetime) -> datetime:
    """Return for when a schedule is planned next; where that is not known, when its record is due."""
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
        page: JobPage = yield verbs.list_jobs(which)
        for job in page.jobs:
            limits = [limit for rule in rules if (limit := longest_run(rule, job, timeouts)) is not None]
            if limits and now - job.run_at > timedelta(seconds=min(limits)):
                suspects.append(job)
        if len(page.jobs) < RUNNING:
            break
        which = replace(which, before=page.next)
    return (yield from beginnings.look(verbs, suspects, now))


def longest_run(rule: AlertRule, job: Job, timeouts: Mapping[str, float | None]) -> float | None:
    """Return for how many seconds a job may run by a rule; None where the rule says nothing about it."""
    if not is_about(rule, job.queue, job.task):
        return None
    if rule.above is not None:
        return rule.above
    if job.task not in timeouts:
        return None
    timeout = timeouts[job.task]
    return LONG_WITHOUT_TIMEOUT if timeout is None else timeout + TIMEOUT_MARGIN


class AheadFires:
    """Finds the fires that were decided ahead of their time, and for which nobody was there when it came.

    Their jobs were enqueued some seconds before, and so the history says that they fired. They started when somebody
    was there again, which is as if they had been caught up then. It asks once after each time that whoever looks was
    not there; again about jobs that have not started yet, such as those that a lost worker had.
    """

    def __init__(self) -> None:
        self._asked_for: datetime | None = None
        self._open: tuple[Fire, ...] = ()
        self._made_up_for: tuple[Fire, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether there is one to ask again about."""
        return bool(self._open)

    def look(
        self,
        verbs: Store,
        fires: Iterable[Fire],
        workers: Sequence[Worker],
        away: tuple[datetime | None, datetime],
        now: datetime,
    ) -> Verbs[tuple[Fire, ...]]:
        """Return the fires that were made up for, as if decided when their jobs started.

        `away` is from when until when whoever looks was not there; from None, if it had not come before.
        """
        since, until = away
        if until > now:  # it cannot be sure of that yet
            return self._made_up_for
        if until != self._asked_for:
            self._asked_for, self._made_up_for = until, ()
            self._open = last_ahead(fires, since, until)
        if self._open:
            records: Sequence[Record] = yield verbs.records(Kind.SCHEDULE, [fire.schedule for fire in self._open])
            schedules = {schedule.name: schedule for schedule in read_schedules(records)[0]}
            others = () if since is not None else workers
            yield from self._ask(verbs, schedules, others, now)
        if now - until > ASKED_FOR:
            self._open = ()
        return self._made_up_for

    def _ask(
        self, verbs: Store, schedules: dict[str, Schedule], others: Sequence[Worker], now: datetime
    ) -> Verbs[None]:
        waiting = []
        for fire in self._open:
            schedule = schedules.get(fire.schedule)
            at = None if schedule is None else missed_at(fire, schedule)
            if at is None or at > now or any(each.is_live and each.started_at <= at for each in others):
                continue
            attempts: tuple[Attempt, ...] = yield verbs.history(fire.job_id or "")
            started_at = min((each.started_at for each in attempts if each.started_at is not None), default=None)
            if started_at is None:
                waiting.append(fire)
            elif started_at > at:
                caught_up = replace(fire, decision=Decision.CAUGHT_UP, decided_at=started_at)
                self._made_up_for = (*self._made_up_for, caught_up)
        self._open = tuple(waiting)


def last_ahead(fires: Iterable[Fire], since: datetime | None, until: datetime) -> tuple[Fire, ...]:
    """Return the last fire of each schedule that was decided ahead, of a time when nobody may have been there."""
    last: dict[str, Fire] = {}
    for fire in fires:
        fired = fire.decision is Decision.FIRED and fire.cause is FireCause.RULE and fire.job_id is not None
        ahead = fire.decided_at is not None and fire.decided_at <= fire.planned
        if fired and ahead and fire.planned < until and (since is None or fire.planned > since):
            known = last.setdefault(fire.schedule, fire)
            last[fire.schedule] = max(known, fire, key=lambda each: each.planned)
    return tuple(sorted(last.values(), key=lambda each: each.planned, reverse=True)[:MOST])


def missed_at(fire: Fire, schedule: Schedule) -> datetime:
    """Return from when on the time of a fire counts as missed."""
    rule = schedule.plan.rule
    return rule.run_at(fire.planned, schedule.ground) + timedelta(seconds=rule.misfire_after)
