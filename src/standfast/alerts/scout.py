"""Looks at the store for one who makes rounds, no more than there is reason to."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from standfast.alerts.ahead import AheadFires
from standfast.alerts.looks import (
    FIGURED,
    Beginnings,
    Burns,
    Looks,
    look_at_closed,
    look_at_dead,
    look_at_figures,
    look_at_fires,
    look_at_incidents,
    look_at_late,
    look_at_running,
)
from standfast.alerts.missing import missed_now
from standfast.alerts.standing import Board
from standfast.alerts.watching import Watching
from standfast.core.alert import AlertRule, Check
from standfast.figures.series import Series
from standfast.objectives.published import published_objectives
from standfast.objectives.standing import read_burns
from standfast.store.errand import Verbs
from standfast.store.examination import Finding
from standfast.store.protocol import QueueAges, Store, Worker, ask_time

FIGURES_SETTLE = timedelta(minutes=1)
"""How long after an end figures may still come that tell of it."""

_MEASURED = {Check.STORE_SLOW: "store_seconds", Check.NOT_DURABLE: "findings", Check.DISK_FULL: "disks"}
"""What a process measures itself, by what is looked at: who looks at something else has nothing to say of it."""


@dataclass(frozen=True, slots=True)
class Here:
    """What the process of who looks knows by itself, besides since when it has been there.

    `away_since`: since when it had not been there before that; None, if it had not come yet.
    """

    watched_since: datetime
    away_since: datetime | None = None
    store_seconds: float | None = None
    findings: tuple[Finding, ...] | None = None
    disks: Mapping[str, float] | None = None


class Scout:
    """Looks, and remembers what it has seen."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._beginnings = Beginnings()
        self._ahead = AheadFires()
        self._done: frozenset[tuple[str, int]] | None = None
        self._last_ended_at: datetime | None = None
        self.jobs_end = False
        """Whether jobs have ended of late, as far as the last look tells."""

    def look(
        self, verbs: Store, rules: Sequence[AlertRule], wanted: AbstractSet[Check], board: Board, here: Here
    ) -> Verbs[Looks]:
        """Look at what is wanted, as far as rules are about it.

        A look at queues is a full one: then also at what there are alerts of, for they may have ended, and at what
        the last look has left open.
        """
        rules = [rule for rule in rules if rule.enabled]
        standing = set[Check]()
        if Check.QUEUE_AGE in wanted:
            standing |= {alert.check for alert in board.alerts}
            standing |= {Check.SCHEDULE_MISSED} if self._ahead.is_open else set()
        checks = {rule.check for rule in rules} & (wanted | standing)
        workers: tuple[Worker, ...] = yield verbs.workers()
        ages: QueueAges | None = None
        if Check.QUEUE_AGE in wanted:
            ages = yield verbs.queue_ages()
        now: datetime = ages.now if ages is not None else (yield ask_time(verbs)).now
        found: dict[str, Any] = {}
        if Check.WORKER_SILENT in checks:
            found["workers"], found["missed"] = workers, missed_now(board, workers)
        if ages is not None and Check.QUEUE_AGE in checks:
            found["closed"] = yield from look_at_closed(verbs, ages, rules)
        if checks & FIGURED and (self._jobs_end(workers, rules, now) or standing & FIGURED):
            found["figures"] = figures = yield from look_at_figures(verbs, rules, now)
            self._note_figures(figures, now)
        if Check.JOB_TOO_LONG in checks:
            found["running"] = yield from self._running(verbs, rules, workers, now)
        if Check.SCHEDULE_MISSED in checks:
            fires = yield from look_at_fires(verbs)
            away = here.away_since, here.watched_since
            found["fires"] = (*fires, *(yield from self._ahead.look(verbs, fires, workers, away, now)))
        found |= yield from self._look_further(verbs, checks, board, now)
        hosts = frozenset(worker.info.host for worker in workers if worker.is_live)
        for check, name in _MEASURED.items():
            if check in checks:
                found[name] = getattr(here, name)
        return Looks(now, here.watched_since, timeouts=self._watching.timeouts, ages=ages, hosts=hosts, **found)

    def _look_further(
        self, verbs: Store, checks: AbstractSet[Check], board: Board, now: datetime
    ) -> Verbs[dict[str, Any]]:
        found: dict[str, Any] = {}
        if Check.DEAD_BACKLOG in checks:
            keep, keep_for = self._watching.keep_dead, self._watching.keep_dead_for
            found["dead"] = yield from look_at_dead(verbs, keep, keep_for, now)
        if Check.SCHEDULE_LATE in checks:
            found["late"] = yield from look_at_late(verbs)
        if checks & {Check.INCIDENT, Check.KEEP_ALIVE}:
            found["incidents"] = yield from look_at_incidents(verbs)
        if Check.BUDGET_BURN in checks:
            found["burns"] = yield from self._burns(verbs, board)
        return found

    def _burns(self, verbs: Store, board: Board) -> Verbs[Burns]:
        """Look at the objectives of this app, and at all that are published if there is an alert of another one.

        It may be another app's, which looks by itself, or nobody's any more: then its alert is over.
        """
        objectives = {each.name: each for each in self._watching.objectives}
        if any(alert.check is Check.BUDGET_BURN and alert.subject not in objectives for alert in board.alerts):
            published = yield from published_objectives(verbs).steps
            objectives = {each.name: each for each in published} | objectives
        return (yield from read_burns(verbs, tuple(objectives.values())).steps)

    def _running(
        self, verbs: Store, rules: Sequence[AlertRule], workers: Sequence[Worker], now: datetime
    ) -> Verbs[Any]:
        if not any(worker.running or worker.vitals is None or worker.vitals.running for worker in workers):
            return ()
        return (yield from look_at_running(verbs, rules, self._watching.timeouts, self._beginnings, now))

    def _note_figures(self, figures: Series, now: datetime) -> None:
        """Look no more until a job ends, if none has ended for as long as rules look back."""
        last = self._last_ended_at
        if last is not None and now - last > FIGURES_SETTLE and not any(point.rows for point in figures.points):
            self._last_ended_at = None

    def _jobs_end(self, workers: Sequence[Worker], rules: Sequence[AlertRule], now: datetime) -> bool:
        """Tell whether figures may have changed, or still tell of a time that rules look back to."""
        done = frozenset((each.info.id, each.vitals.done) for each in workers if each.vitals is not None)
        if done != self._done:
            self._done, self._last_ended_at = done, now
        longest = max((rule.over for rule in rules if rule.check in FIGURED), default=0.0)
        last = self._last_ended_at
        self.jobs_end = last is not None and now - last < FIGURES_SETTLE
        return last is not None and now - last < timedelta(seconds=longest) + FIGURES_SETTLE
