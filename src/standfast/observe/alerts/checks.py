"""Which rules are broken, and by whom, as far as a look tells. Pure."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from standfast.model.alerts import Alert, AlertRule, Check, Example, Severity
from standfast.model.display import counted, one_line, short_id, span
from standfast.model.incidents import Incident, Trouble
from standfast.model.records import Decision, Fire, FireCause
from standfast.model.suggestions import closest_name
from standfast.observe.alerts.board import Board, Missed
from standfast.observe.alerts.board_changes import MISSED_FOR
from standfast.observe.alerts.observations import (
    EXAMPLES,
    GOING_SEEN,
    Breach,
    Key,
    Observations,
    QueueCoverage,
    Running,
    is_about,
    longest_run,
    many_dead,
)
from standfast.observe.figures.series import Figures, sum_of
from standfast.stores.doctor import Severity as FindingSeverity
from standfast.stores.values import UnknownAge, Worker

P95 = 0.95
QUEUES_NAMED = 10  # how many queues are named that nobody serves
HEARD_WITHIN = timedelta(minutes=1)  # so long after a rule is broken by who was given up, somebody has looked
_UNDURABLE = frozenset({"durability", "eviction"})
_FAST = timedelta(hours=1).total_seconds()
_QUIET_TROUBLES = frozenset({Trouble.SNAPSHOT, Trouble.UNREACHABLE})
SUMMARY_LENGTH = 200


def _failure_rate(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for name, words, row in _groups(rule, looks, by_queue=False):
        failed = row.failed + row.dead
        attempts = row.completed + failed
        share = failed / attempts if attempts else 0.0
        if attempts >= rule.at_least and share > (rule.above or 0.0):
            says = f"{words}: {share:.0%} of {counted(attempts, 'attempt')} failed in the last {_back(rule)}"
            jobs = max(row.dead, 1)  # of those that are tried again nobody knows how many jobs they are of
            yield Breach(rule, name, says, share, jobs)


def dead_letters(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    """Yield the tasks, or queues, of which jobs die."""
    for name, words, row in _groups(rule, looks, by_queue=False):
        if row.dead > (rule.above or 0.0):
            says = f"{words}: {counted(row.dead, 'death')} of jobs in the last {_back(rule)}"
            yield Breach(rule, name, says, float(row.dead), row.dead)


def _start_lag(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for name, words, row in _groups(rule, looks, by_queue=True):
        lag = row.lag_percentile(P95)
        if lag is not None and sum(row.lag) >= rule.at_least and lag.total_seconds() > (rule.above or 0.0):
            says = f"{words}: 5 % of the jobs of the last {_back(rule)} started {span(lag)} late or more"
            yield Breach(rule, name, says, lag.total_seconds(), sum(row.lag))


def _back(rule: AlertRule) -> str:
    return span(timedelta(seconds=rule.over))


def _groups(rule: AlertRule, looks: Observations, *, by_queue: bool) -> Iterator[tuple[str, str, Figures]]:
    """Yield what a rule is about, by task or by queue: its name, how it is called, and its figures."""
    assert looks.figures is not None
    by_queue = rule.task is None and (by_queue or rule.queue is not None)
    since = looks.figures.now - timedelta(seconds=rule.over) - looks.figures.step
    groups: dict[str, list[Figures]] = {}
    for row in (row for point in looks.figures.points if point.at > since for row in point.rows):
        if is_about(rule, row.queue, row.task):
            groups.setdefault(row.queue if by_queue else row.task, []).append(row)
    for name, some in groups.items():
        if name:  # else it is what there was no room for
            words = f"{'queue' if by_queue else 'task'} {one_line(name)}"
            yield name, words, sum_of(some)


def silent_for(worker: Worker) -> float:
    """Return for how many seconds a worker, or its event loop, has given no sign of life."""
    pulse_age = 0.0 if worker.vitals is None else worker.vitals.pulse_age
    return max(worker.beat_age.total_seconds(), pulse_age)


def allowed(rule: AlertRule, lease: timedelta) -> float:
    """Return for how many seconds a worker may be silent: no less than lies between two beats, half a lease."""
    return max(rule.above or 0.0, lease.total_seconds() / 2)


def worker_silent(rule: AlertRule, looks: Observations, known: AbstractSet[Key]) -> Iterator[Breach]:
    """Yield the workers that are silent, but for those who fell silent before there was anybody to notice.

    Who was given up counts, too: until it was told, and while nobody else serves a queue of it.
    Couriers are left out: they come and go, and any other sends what they had. So is who does no more than they do.
    """
    gone = _gone(looks)
    told = {each.info.id for each in looks.missed if rule.name in each.told} & {each.info.id for each in gone}
    watched = {each.info.id for each in looks.missed if each.watched}
    workers = [*(each for each in looks.workers or () if not each.info.is_courier), *gone]
    silent = {each.info.id: each for each in workers if silent_for(each) > allowed(rule, each.info.lease)}
    others = QueueCoverage(each for each in workers if each.is_live and each.info.id not in silent)
    for worker in silent.values():
        unwatched = looks.now - worker.beat_age < looks.watched_since and worker.info.id not in watched
        if unwatched and (rule.name, worker.info.id) not in known:
            continue
        alone = _served_by_nobody_else(worker, others)
        if (rule.queue is None or worker.serves(rule.queue)) and (alone or worker.info.id not in told):
            yield _breach(rule, worker, alone)


def _gone(looks: Observations) -> list[Worker]:
    """Return those who were given up and have no row any more, as they would look with one."""
    rows = {each.info.id for each in looks.workers or ()}
    return [
        Worker(each.info, each.beat_at, looks.now - each.beat_at, condemned=True, held=0, running=0)
        for each in looks.missed
        if each.info.id not in rows
    ]


def still_missed(looks: Observations, rules: Iterable[AlertRule]) -> tuple[Missed, ...]:
    """Return whom to remember: of whom people may have to hear yet, and whose work nobody does."""
    others = QueueCoverage(each for each in looks.workers or () if each.is_live)
    gone = {each.info.id: each for each in _gone(looks)}
    kept = []
    for each in looks.missed:
        silence, worker = looks.now - each.beat_at, gone.get(each.info.id)
        spans = (allowed(rule, each.info.lease) + rule.hold for rule in rules if rule.check is Check.WORKER_SILENT)
        untold = silence < timedelta(seconds=max(spans, default=0.0)) + HEARD_WITHIN
        if silence < MISSED_FOR and (untold or worker is None or _served_by_nobody_else(worker, others)):
            kept.append(each)
    return tuple(kept)


def next_silence(board: Board, rules: Iterable[AlertRule], now: datetime) -> float:
    """Return in how many seconds somebody who was given up breaks a rule, or what is pending is to fire."""
    limits = {rule.name: rule for rule in rules if rule.check is Check.WORKER_SILENT and rule.enabled}
    broken_in = [
        allowed(rule, each.info.lease) - (now - each.beat_at).total_seconds()
        for each in board.missed
        for rule in limits.values()
    ]
    fires_in = [
        limits[alert.rule].hold - (now - alert.since).total_seconds()
        for alert in board.pending
        if alert.rule in limits
    ]
    return min((wait for wait in (*broken_in, *fires_in) if wait >= 0), default=math.inf)


def _breach(rule: AlertRule, worker: Worker, alone: str) -> Breach:
    info, seconds = worker.info, silent_for(worker)
    jobs = worker.held + worker.running
    has = f"; it has {counted(jobs, 'job')}" if jobs else ""
    lack = f"; nobody else serves {alone}" if alone else ""
    says = (
        f"worker {info.id} ({one_line(info.host)}, pid {info.pid}) is silent for"
        f" {span(timedelta(seconds=seconds))}{lack}{has}"
    )
    severity = Severity.CRITICAL if alone else None
    return Breach(rule, info.id, says, seconds, examples=(Example("worker", info.id),), severity=severity)


def _served_by_nobody_else(worker: Worker, others: QueueCoverage) -> str:
    """Return in words which queues nobody serves while this worker is silent; none where there are none."""
    if worker.info.queues is None:
        return "" if others.everything else "its queues"
    alone = [queue for queue in worker.info.queues if queue not in others]
    names = ", ".join(one_line(queue) for queue in alone[:QUEUES_NAMED])
    more = f" and {counted(len(alone) - QUEUES_NAMED, 'other')}" if len(alone) > QUEUES_NAMED else ""
    return f"{'queue' if len(alone) == 1 else 'queues'} {names}{more}" if alone else ""


def how_it_ended(alert: Alert, looks: Observations) -> str | None:
    """Return in which way the silence of a worker has ended."""
    if looks.workers is None:
        return None
    for worker in looks.workers:
        if worker.info.id == alert.subject:
            return f"worker {alert.subject} ({one_line(worker.info.host)}, pid {worker.info.pid}) is back"
    served = any(each.info.id == alert.subject for each in looks.missed)
    others = "; others serve its queues" if served else ""
    return f"worker {alert.subject} is gone, and what it had was given back{others}"


def breaches_of(rules: Iterable[AlertRule], looks: Observations, known: AbstractSet[Key]) -> Iterator[Breach]:
    """Yield what is broken. `known` are alerts that there are: what was silent before one came is not new."""
    seen = looked_at(looks)
    for rule in rules:
        if rule.enabled and rule.check in seen:
            _, find = _CHECKS[rule.check]
            yield from find(rule, looks, known) if find is worker_silent else find(rule, looks)


def looked_at(looks: Observations) -> frozenset[Check]:
    """Return which checks a look tells about."""
    return frozenset(check for check, (field, _) in _CHECKS.items() if getattr(looks, field) is not None)


def _queue_age(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    assert looks.ages is not None
    living = QueueCoverage(each for each in looks.workers or () if each.is_live)
    closed = {hours.name for hours in looks.closed if hours.closed_at(looks.now) is not None}
    for age in looks.ages.queues:
        waits = looks.ages.now - age.oldest_due_at
        if not is_about(rule, age.name) or age.paused_at is not None or age.name in closed:
            continue
        if waits.total_seconds() > (rule.above or 0.0):
            lack = "" if looks.workers is None or age.name in living else "; no living worker serves it"
            says = f"queue {one_line(age.name)}: its oldest due job waits for {span(waits)}{lack}"
            yield Breach(rule, age.name, says, waits.total_seconds(), examples=(Example("queue", age.name),))


def _task_unknown(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    assert looks.ages is not None
    tasks: dict[str, UnknownAge] = {}
    for age in sorted(looks.ages.unknown, key=lambda each: each.oldest_due_at):
        if is_about(rule, age.queue, age.task):
            tasks.setdefault(age.task, age)
    for task, age in tasks.items():
        waits = looks.ages.now - age.oldest_due_at
        if waits.total_seconds() > (rule.above or 0.0):
            meant = None if task in looks.timeouts else closest_name(task, looks.timeouts.keys())
            says = (
                f"task {one_line(task)} (payload version {age.version}): no running worker knows it, and its oldest"
                f" job waits for {span(waits)}{f'; did you mean {meant}?' if meant else ''}"
            )
            yield Breach(rule, task, says, waits.total_seconds())


def _dead_backlog(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    dead = looks.dead
    assert dead is not None
    if dead.jobs > many_dead(rule, dead.keep):
        if dead.keep is not None:
            bound = f"and beyond {dead.keep:,} the oldest are removed (keep_dead): retry, copy or discard them"
        elif dead.keep_for is not None:
            bound = f"each for {span(dead.keep_for)} (keep_dead_for): retry or discard them, or set keep_dead"
        else:
            bound = "and nothing removes them: retry or discard them, or set keep_dead_for or keep_dead"
        yield Breach(
            rule, "number", f"{counted(dead.jobs, 'dead job')} are kept, {bound}", float(dead.jobs), dead.jobs
        )
    if dead.going and dead.keep_for is not None:
        first = dead.going[0].finished_at or looks.now
        left = max(first + dead.keep_for - looks.now, timedelta())
        number = len(dead.going)
        many, when = counted(number, "dead job"), "in"
        if number == GOING_SEEN:  # the newest; the first to go may be older
            many, when = f"{number:,} dead jobs or more", "within"
        says = (
            f"{many} will soon be removed, the first {when} {span(left)} (keep_dead_for):"
            f" retry, copy or discard {'it' if number == 1 else 'them'}"
        )
        examples = tuple(
            Example("job", job.id, one_line(job.error or "", SUMMARY_LENGTH)) for job in dead.going[:EXAMPLES]
        )
        yield Breach(rule, "age", says, count=number, examples=examples)


def _schedule_missed(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    oldest = looks.now - timedelta(seconds=rule.over)
    missed: dict[str, list[Fire]] = {}
    for fire in looks.fires or ():
        nobody_there = fire.decision in {Decision.MISSED, Decision.CAUGHT_UP} and fire.cause is FireCause.RULE
        lately = fire.decided_at is not None and fire.decided_at >= oldest
        if nobody_there and lately and rule.schedule in {None, fire.schedule}:
            missed.setdefault(fire.schedule, []).append(fire)
    for schedule, fires in missed.items():
        count = sum(fire.count for fire in fires)
        if count > (rule.above or 0.0):
            last = max(fires, key=lambda fire: fire.until or fire.planned)
            made_up = sum(fire.count for fire in fires if fire.decision is Decision.CAUGHT_UP)
            says = (
                f"schedule {one_line(schedule)}: nobody was there {counted(count, 'time')}, the last at"
                f" {last.until or last.planned:%Y-%m-%d %H:%M:%S} UTC{_made_up_for(made_up, count)}"
            )
            yield Breach(rule, schedule, says, float(count), count, (Example("schedule", schedule),))


def _made_up_for(made_up: int, missed: int) -> str:
    if made_up < missed:
        return f"; {made_up:,} of them were made up for" if made_up else ""
    return "; it was made up for" if missed == 1 else "; all were made up for"


def _schedule_late(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for name, planned in looks.late or ():
        late = looks.now - planned
        if rule.schedule in {None, name} and late.total_seconds() > (rule.above or 0.0):
            says = f"schedule {one_line(name)} was due {span(late)} ago, and nobody has fired it"
            yield Breach(rule, name, says, late.total_seconds(), examples=(Example("schedule", name),))


def _job_too_long(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    tasks: dict[str, list[Running]] = {}
    for each in looks.running or ():
        limit = longest_run(rule, each.job, looks.timeouts)
        if limit is not None and looks.now - each.since > timedelta(seconds=limit):
            tasks.setdefault(each.job.task, []).append(each)
    for task, jobs in tasks.items():
        jobs.sort(key=lambda each: each.since)
        longest = looks.now - jobs[0].since
        many = f", and {counted(len(jobs) - 1, 'other')}" if len(jobs) > 1 else ""
        says = f"task {one_line(task)}: job {short_id(jobs[0].job.id)} runs for {span(longest)}{many}"
        if looks.timeouts.get(task, 0.0) is None:
            says += ", and its task has no timeout"
        examples = tuple(
            Example("job", each.job.id, f"for {span(looks.now - each.since)}") for each in jobs[:EXAMPLES]
        )
        yield Breach(rule, task, says, longest.total_seconds(), len(jobs), examples)


def _budget_burn(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for name, (fast, slow) in (looks.burns or {}).items():
        is_fast = rule.over <= _FAST
        burn = fast if is_fast else slow
        if burn > (rule.above or 0.0):
            windows = "hour and five minutes" if is_fast else "six hours and half hour"
            says = (
                f"objective {one_line(name)}: its budget is spent {burn:.1f} times too fast, in the last {windows}"
            )
            yield Breach(rule, name, says, burn, examples=(Example("objective", name),))


def _incident(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    troubles: dict[str, list[Incident]] = {}
    for incident in looks.incidents or ():
        about = rule.task is None or any(job.task == rule.task for job in incident.jobs)
        if incident.trouble not in _QUIET_TROUBLES and about:
            troubles.setdefault(incident.trouble.value, []).append(incident)
    for trouble, incidents in troubles.items():
        lately = _recent_incidents(rule, looks, incidents)
        if len(lately) > (rule.above or 0.0):
            happened_at = tuple(each.last_at for each in incidents)
            yield replace(_incidents(rule, trouble, lately), happened_at=happened_at)


def _keep_alive(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    hosts: dict[str, list[Incident]] = {}
    for incident in _recent_incidents(rule, looks, looks.incidents or ()):
        if incident.trouble is Trouble.UNREACHABLE:
            hosts.setdefault(incident.fingerprint or incident.host, []).append(incident)
    for host, incidents in hosts.items():
        if len(incidents) > (rule.above or 0.0):
            yield _incidents(rule, host, incidents)


def _recent_incidents(rule: AlertRule, looks: Observations, incidents: Iterable[Incident]) -> list[Incident]:
    oldest = looks.now - timedelta(seconds=rule.over)
    return [incident for incident in incidents if incident.last_at >= oldest]


def _incidents(rule: AlertRule, subject: str, incidents: list[Incident]) -> Breach:
    """Return the breach of incidents, the newest of which is the first."""
    newest = one_line(incidents[0].summary, SUMMARY_LENGTH)
    many = f"{counted(len(incidents), 'incident')} ({one_line(subject)}), the last: " if len(incidents) > 1 else ""
    examples = tuple(
        Example("incident", each.id, one_line(each.summary, SUMMARY_LENGTH)) for each in incidents[:EXAMPLES]
    )
    severity = Severity.CRITICAL if incidents[0].trouble is Trouble.EMPTIED else None
    return Breach(rule, subject, f"{many}{newest}", float(len(incidents)), len(incidents), examples, severity)


def _store_slow(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    seconds = looks.store_seconds or 0.0
    if seconds > (rule.above or 0.0):
        says = f"the store takes {span(timedelta(seconds=seconds))} to answer, as the median of the last looks"
        yield Breach(rule, "store", says, seconds)


def _not_durable(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for finding in looks.findings or ():
        if finding.check in _UNDURABLE and finding.severity is FindingSeverity.PROBLEM:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            yield Breach(rule, finding.check, f"the store may lose jobs: {finding.says}{remedy}")


def _disk_full(rule: AlertRule, looks: Observations) -> Iterator[Breach]:
    for place, share in (looks.disks or {}).items():
        if share > (rule.above or 0.0):
            yield Breach(rule, place, f"the disk of {one_line(place)} is {share:.0%} full: make room", share)


_CHECKS: Mapping[Check, tuple[str, Callable[..., Iterator[Breach]]]] = MappingProxyType(
    {
        Check.WORKER_SILENT: ("workers", worker_silent),
        Check.QUEUE_AGE: ("ages", _queue_age),
        Check.TASK_UNKNOWN: ("ages", _task_unknown),
        Check.START_LAG: ("figures", _start_lag),
        Check.FAILURE_RATE: ("figures", _failure_rate),
        Check.DEAD_LETTERS: ("figures", dead_letters),
        Check.DEAD_BACKLOG: ("dead", _dead_backlog),
        Check.SCHEDULE_MISSED: ("fires", _schedule_missed),
        Check.SCHEDULE_LATE: ("late", _schedule_late),
        Check.JOB_TOO_LONG: ("running", _job_too_long),
        Check.BUDGET_BURN: ("burns", _budget_burn),
        Check.INCIDENT: ("incidents", _incident),
        Check.STORE_SLOW: ("store_seconds", _store_slow),
        Check.KEEP_ALIVE: ("incidents", _keep_alive),
        Check.NOT_DURABLE: ("findings", _not_durable),
        Check.DISK_FULL: ("disks", _disk_full),
    }
)
"""The field of a look that each check needs, and what finds who breaks a rule."""
