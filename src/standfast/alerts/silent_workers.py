"""Which workers give no sign of life, and whether anybody else does their work. Pure."""

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from standfast.alerts.breach import Breach, Key
from standfast.alerts.looks import Looks
from standfast.alerts.missing import MISSED_FOR
from standfast.alerts.serving import Serving
from standfast.alerts.standing import Board, Missed
from standfast.core.alert import Alert, AlertRule, Check, Example, Severity
from standfast.store.protocol import Worker
from standfast.words import counted, one_line, span

QUEUES_NAMED = 10
"""How many queues are named that nobody serves."""

HEARD_WITHIN = timedelta(minutes=1)
"""So long after a rule is broken by who was given up, somebody has looked."""


def silent_for(worker: Worker) -> float:
    """Return for how many seconds a worker, or its event loop, has given no sign of life."""
    pulse_age = 0.0 if worker.vitals is None else worker.vitals.pulse_age
    return max(worker.beat_age.total_seconds(), pulse_age)


def allowed(rule: AlertRule, lease: timedelta) -> float:
    """Return for how many seconds a worker may be silent: no less than lies between two beats, half a lease."""
    return max(rule.above or 0.0, lease.total_seconds() / 2)


def worker_silent(rule: AlertRule, looks: Looks, known: AbstractSet[Key]) -> Iterator[Breach]:
    """Yield the workers that are silent, but for those who fell silent before there was anybody to notice.

    Who was given up counts, too: until it was told, and while nobody else serves a queue of it.
    Couriers are left out: they come and go, and any other sends what they had. So is who does no more than they do.
    """
    gone = _gone(looks)
    told = {each.info.id for each in looks.missed if rule.name in each.told} & {each.info.id for each in gone}
    watched = {each.info.id for each in looks.missed if each.watched}
    workers = [*(each for each in looks.workers or () if not each.info.is_courier), *gone]
    silent = {each.info.id: each for each in workers if silent_for(each) > allowed(rule, each.info.lease)}
    others = Serving(each for each in workers if each.is_live and each.info.id not in silent)
    for worker in silent.values():
        unwatched = looks.now - worker.beat_age < looks.watched_since and worker.info.id not in watched
        if unwatched and (rule.name, worker.info.id) not in known:
            continue
        alone = _served_by_nobody_else(worker, others)
        if (rule.queue is None or worker.serves(rule.queue)) and (alone or worker.info.id not in told):
            yield _breach(rule, worker, alone)


def _gone(looks: Looks) -> list[Worker]:
    """Return those who were given up and have no row any more, as they would look with one."""
    rows = {each.info.id for each in looks.workers or ()}
    return [
        Worker(each.info, each.beat_at, looks.now - each.beat_at, condemned=True, held=0, running=0)
        for each in looks.missed
        if each.info.id not in rows
    ]


def still_missed(looks: Looks, rules: Iterable[AlertRule]) -> tuple[Missed, ...]:
    """Return whom to remember: of whom people may have to hear yet, and whose work nobody does."""
    others = Serving(each for each in looks.workers or () if each.is_live)
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


def _served_by_nobody_else(worker: Worker, others: Serving) -> str:
    """Return in words which queues nobody serves while this worker is silent; none where there are none."""
    if worker.info.queues is None:
        return "" if others.everything else "its queues"
    alone = [queue for queue in worker.info.queues if queue not in others]
    names = ", ".join(one_line(queue) for queue in alone[:QUEUES_NAMED])
    more = f" and {counted(len(alone) - QUEUES_NAMED, 'other')}" if len(alone) > QUEUES_NAMED else ""
    return f"{'queue' if len(alone) == 1 else 'queues'} {names}{more}" if alone else ""


def how_it_ended(alert: Alert, looks: Looks) -> str | None:
    """Return in which way the silence of a worker has ended."""
    if looks.workers is None:
        return None
    for worker in looks.workers:
        if worker.info.id == alert.subject:
            return f"worker {alert.subject} ({one_line(worker.info.host)}, pid {worker.info.pid}) is back"
    served = any(each.info.id == alert.subject for each in looks.missed)
    others = "; others serve its queues" if served else ""
    return f"worker {alert.subject} is gone, and what it had was given back{others}"
