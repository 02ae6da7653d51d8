"""Which rules are broken, and by whom, as far as a look tells. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from standfast.alerts.breach import EXAMPLES, Breach, Key, is_about
from standfast.alerts.figured import dead_letters, failure_rate, start_lag
from standfast.alerts.looks import GOING_SEEN, Looks, Running, longest_run, many_dead
from standfast.alerts.serving import Serving
from standfast.alerts.silent_workers import worker_silent
from standfast.core.alert import AlertRule, Check, Example, Severity
from standfast.core.incident import Incident, Trouble
from standfast.core.record import Decision, Fire, FireCause
from standfast.spelling import nearest
from standfast.store.examination import Severity as FindingSeverity
from standfast.store.protocol import UnknownAge
from standfast.words import counted, one_line, short_id, span

_UNDURABLE = frozenset({"durability", "eviction"})
_FAST = timedelta(hours=1).total_seconds()
_QUIET_TROUBLES = frozenset({Trouble.SNAPSHOT, Trouble.UNREACHABLE})
SUMMARY_LENGTH = 200


def breaches_of(rules: Iterable[AlertRule], looks: Looks, known: AbstractSet[Key]) -> Iterator[Breach]:
    """Yield what is broken. `known` are alerts that there are: what was silent before one came is not new."""
    for rule in rules:
        if rule.enabled and rule.check in looked_at(looks):
            if rule.check is Check.WORKER_SILENT:
                yield from worker_silent(rule, looks, known)
            else:
                yield from _CHECKS[rule.check](rule, looks)


def looked_at(looks: Looks) -> frozenset[Check]:
    """Return which checks a look tells about."""
    seen: Mapping[Check, object] = {
        Check.WORKER_SILENT: looks.workers,
        Check.QUEUE_AGE: looks.ages,
        Check.TASK_UNKNOWN: looks.ages,
        Check.START_LAG: looks.figures,
        Check.FAILURE_RATE: looks.figures,
        Check.DEAD_LETTERS: looks.figures,
        Check.DEAD_BACKLOG: looks.dead,
        Check.SCHEDULE_MISSED: looks.fires,
        Check.SCHEDULE_LATE: looks.late,
        Check.JOB_TOO_LONG: looks.running,
        Check.BUDGET_BURN: looks.burns,
        Check.INCIDENT: looks.incidents,
        Check.STORE_SLOW: looks.store_seconds,
        Check.KEEP_ALIVE: looks.incidents,
        Check.NOT_DURABLE: looks.findings,
        Check.DISK_FULL: looks.disks,
    }
    return frozenset(check for check, found in seen.items() if found is not None)


def _queue_age(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    assert looks.ages is not None
    living = Serving(each for each in looks.workers or () if each.is_live)
    closed = {hours.name for hours in looks.closed if hours.closed_at(looks.now) is not None}
    for age in looks.ages.queues:
        waits = looks.ages.now - age.oldest_due_at
        if not is_about(rule, age.name) or age.paused_at is not None or age.name in closed:
            continue
        if waits.total_seconds() > (rule.above or 0.0):
            lack = "" if looks.workers is None or age.name in living else "; no living worker serves it"
            says = f"queue {one_line(age.name)}: its oldest due job waits for {span(waits)}{lack}"
            yield Breach(rule, age.name, says, waits.total_seconds(), examples=(Example("queue", age.name),))


def _task_unknown(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    assert looks.ages is not None
    tasks: dict[str, UnknownAge] = {}
    for age in sorted(looks.ages.unknown, key=lambda each: each.oldest_due_at):
        if is_about(rule, age.queue, age.task):
            tasks.setdefault(age.task, age)
    for task, age in tasks.items():
        waits = looks.ages.now - age.oldest_due_at
        if waits.total_seconds() > (rule.above or 0.0):
            meant = None if task in looks.timeouts else nearest(task, looks.timeouts.keys())
            says = (
                f"task {one_line(task)} (payload version {age.version}): no running worker knows it, and its oldest"
                f" job waits for {span(waits)}{f'; did you mean {meant}?' if meant else ''}"
            )
            yield Breach(rule, task, says, waits.total_seconds())


def _dead_backlog(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
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


def _schedule_missed(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
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


def _schedule_late(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    for each in looks.late or ():
        late = looks.now - each.planned
        if rule.schedule in {None, each.schedule} and late.total_seconds() > (rule.above or 0.0):
            says = f"schedule {one_line(each.schedule)} was due {span(late)} ago, and nobody has fired it"
            example = Example("schedule", each.schedule)
            yield Breach(rule, each.schedule, says, late.total_seconds(), examples=(example,))


def _job_too_long(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
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


def _budget_burn(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    for name, (fast, slow) in (looks.burns or {}).items():
        is_fast = rule.over <= _FAST
        burn = fast if is_fast else slow
        if burn > (rule.above or 0.0):
            windows = "hour and five minutes" if is_fast else "six hours and half hour"
            says = (
                f"objective {one_line(name)}: its budget is spent {burn:.1f} times too fast, in the last {windows}"
            )
            yield Breach(rule, name, says, burn, examples=(Example("objective", name),))


def _incident(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    troubles: dict[str, list[Incident]] = {}
    for incident in looks.incidents or ():
        about = rule.task is None or any(job.task == rule.task for job in incident.jobs)
        if incident.trouble not in _QUIET_TROUBLES and about:
            troubles.setdefault(incident.trouble.value, []).append(incident)
    for trouble, incidents in troubles.items():
        lately = _lately(rule, looks, incidents)
        if len(lately) > (rule.above or 0.0):
            happened_at = tuple(each.last_at for each in incidents)
            yield replace(_incidents(rule, trouble, lately), happened_at=happened_at)


def _keep_alive(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    hosts: dict[str, list[Incident]] = {}
    for incident in _lately(rule, looks, looks.incidents or ()):
        if incident.trouble is Trouble.UNREACHABLE:
            hosts.setdefault(incident.fingerprint or incident.host, []).append(incident)
    for host, incidents in hosts.items():
        if len(incidents) > (rule.above or 0.0):
            yield _incidents(rule, host, incidents)


def _lately(rule: AlertRule, looks: Looks, incidents: Iterable[Incident]) -> list[Incident]:
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


def _store_slow(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    seconds = looks.store_seconds or 0.0
    if seconds > (rule.above or 0.0):
        says = f"the store takes {span(timedelta(seconds=seconds))} to answer, as the median of the last looks"
        yield Breach(rule, "store", says, seconds)


def _not_durable(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    for finding in looks.findings or ():
        if finding.check in _UNDURABLE and finding.severity is FindingSeverity.PROBLEM:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            yield Breach(rule, finding.check, f"the store may lose jobs: {finding.says}{remedy}")


def _disk_full(rule: AlertRule, looks: Looks) -> Iterator[Breach]:
    for place, share in (looks.disks or {}).items():
        if share > (rule.above or 0.0):
            yield Breach(rule, place, f"the disk of {one_line(place)} is {share:.0%} full: make room", share)


_CHECKS: Mapping[Check, Callable[[AlertRule, Looks], Iterator[Breach]]] = MappingProxyType(
    {
        Check.QUEUE_AGE: _queue_age,
        Check.TASK_UNKNOWN: _task_unknown,
        Check.START_LAG: start_lag,
        Check.FAILURE_RATE: failure_rate,
        Check.DEAD_LETTERS: dead_letters,
        Check.DEAD_BACKLOG: _dead_backlog,
        Check.SCHEDULE_MISSED: _schedule_missed,
        Check.SCHEDULE_LATE: _schedule_late,
        Check.JOB_TOO_LONG: _job_too_long,
        Check.BUDGET_BURN: _budget_burn,
        Check.INCIDENT: _incident,
        Check.STORE_SLOW: _store_slow,
        Check.KEEP_ALIVE: _keep_alive,
        Check.NOT_DURABLE: _not_durable,
        Check.DISK_FULL: _disk_full,
    }
)
