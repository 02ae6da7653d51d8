"""One round for the whole fleet: look, evaluate, write. Whoever comes second, or dies on the way, does no harm.

    the board ─► looks ─► evaluated ─► board, with the delivery of what is told, by comparison of versions ─► filed

Where others were faster, all of it is done again: what was looked at before they wrote may be over by what they have
seen, and must not be told after it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from standfast.errors import StoreUnavailableError
from standfast.model.alerts import Alert, AlertRule, Check, Notice
from standfast.model.job import NewJob
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.board import MOST, SAID_AGAIN, Board, LoadedBoard, Published, load_board
from standfast.observe.alerts.board_changes import board_change, effective_rules, filing, missed_now
from standfast.observe.alerts.channel import Channel
from standfast.observe.alerts.checks import breaches_of, how_it_ended, looked_at, still_missed
from standfast.observe.alerts.evaluation import Evaluation, Round, evaluate
from standfast.observe.alerts.observations import (
    FIGURED,
    AheadFires,
    Beginnings,
    Breach,
    Burns,
    Observations,
    look_at_closed,
    look_at_dead,
    look_at_figures,
    look_at_fires,
    look_at_late,
    look_at_running,
    with_examples,
)
from standfast.observe.burn_rates import read_burns
from standfast.observe.catalogue import published_objectives
from standfast.observe.figures.series import Series
from standfast.observe.incidents import list_incidents
from standfast.stores.contract import Store, ask_time
from standfast.stores.doctor import Finding
from standfast.stores.values import QueueAges, Worker
from standfast.stores.verb import Verbs, procedure

log = logging.getLogger(__name__)

TRIES = 10  # how often a round is begun anew because others have changed the board meanwhile
FORGOTTEN = timedelta(hours=3)  # after which time what an app declared, and has not said again, is forgotten
FIGURES_SETTLE = timedelta(minutes=1)  # how long after an end figures may still come that tell of it

Deliveries = Callable[
    [Notice, Sequence[Channel]], tuple[NewJob, ...]
]  # makes the jobs that bring a notice to channels
_MEASURED = {Check.STORE_SLOW: "store_seconds", Check.NOT_DURABLE: "findings", Check.DISK_FULL: "disks"}
"""What a process measures itself, by what is looked at: who looks at something else has nothing to say of it."""


@dataclass(frozen=True, slots=True)
class LocalView:
    """What the process that looks knows by itself. `away_since`: since when it was away before; None at first."""

    watched_since: datetime
    away_since: datetime | None = None
    store_seconds: float | None = None
    findings: tuple[Finding, ...] | None = None
    disks: Mapping[str, float] | None = None


class Observer:
    """Looks at the store, no more than there is reason to, and remembers what it has seen."""

    def __init__(self, watching: AlertSettings) -> None:
        self._watching = watching
        self._beginnings = Beginnings()
        self._ahead = AheadFires()
        self._done: frozenset[tuple[str, int]] | None = None
        self._last_ended_at: datetime | None = None
        self.jobs_end = False  # whether jobs have ended of late, as far as the last look tells

    def look(
        self, verbs: Store, rules: Sequence[AlertRule], wanted: AbstractSet[Check], board: Board, here: LocalView
    ) -> Verbs[Observations]:
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
        return Observations(
            now, here.watched_since, timeouts=self._watching.timeouts, ages=ages, hosts=hosts, **found
        )

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
            found["incidents"] = yield from list_incidents(verbs).steps
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


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What came of a round: what is told, what has begun and ended, how the board stands, how old queues are."""

    now: datetime
    board: Board
    notices: tuple[Notice, ...] = ()
    fired: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()
    ages: QueueAges | None = None


class Monitor:
    """Makes the rounds of one process, for one app."""

    def __init__(
        self,
        watching: AlertSettings,
        *,
        app: str = "",
        labels: Mapping[str, str] | None = None,
        deliveries: Deliveries = lambda _notice, _channels: (),
    ) -> None:
        self.watching = watching
        self._app = app
        self._labels = labels or {}
        self._deliveries = deliveries
        self.scout = Observer(watching)
        self._warned = False
        self._warned_of = set[str]()

    @procedure
    def round(self, verbs: Store, wanted: AbstractSet[Check], here: LocalView) -> Verbs[RoundResult]:
        """Look at what is wanted, as far as rules are about it, and write down what follows."""
        for _ in range(TRIES):
            seen: LoadedBoard = yield from load_board(verbs)
            self._warn_of(seen)
            looks, breaches = yield from self._look(verbs, wanted, here, seen.board)
            if seen.board.outbox:  # somebody told it, and left it to the next round to clear
                yield verbs.change_records([filing(notice) for notice in seen.board.outbox])
            judged = self._judge(seen.board, breaches, looks)
            if judged.board == seen.board and not seen.unfit:
                return RoundResult(looks.now, seen.board, ages=looks.ages)
            jobs = tuple(job for notice in judged.notices for job in self._delivered(notice, judged.board))
            (made,) = yield verbs.change_records([board_change(seen, judged.board, jobs)])
            if made:
                if judged.notices:
                    yield verbs.change_records([filing(notice) for notice in judged.notices])
                return RoundResult(
                    looks.now, judged.board, judged.notices, judged.fired, judged.resolved, looks.ages
                )
        raise StoreUnavailableError("others have changed the alerts again and again meanwhile")

    def _warn_of(self, seen: LoadedBoard) -> None:
        """Say that something of the board counts for nothing: once, for as long as it is so."""
        warned, self._warned = self._warned, bool(seen.strange or seen.unfit)
        if self._warned and not warned:
            log.warning(
                "%d entries of the board of alerts cannot be read, or gone by, and are left out:"
                " they are damaged, or of another release",
                seen.strange + seen.unfit,
            )

    def _look(
        self, verbs: Store, wanted: AbstractSet[Check], here: LocalView, board: Board
    ) -> Verbs[tuple[Observations, tuple[Breach, ...]]]:
        rules = effective_rules(self.watching.rules, board)
        looks = yield from self.scout.look(verbs, rules, wanted, board, here)
        known = {(alert.rule, alert.subject): alert for alert in board.alerts}
        breaches = tuple(breaches_of(rules, looks, known.keys()))
        return looks, (yield from with_examples(verbs, breaches, known))

    def _judge(self, board: Board, breaches: Sequence[Breach], looks: Observations) -> Evaluation:
        now = looks.now
        told = board.apps.items()
        lately = [(name, said) for name, said in told if name != self._app and abs(now - said.at) < FORGOTTEN]
        others = dict(lately[: MOST["apps"] - 1])
        apps = {**others, self._app: self._published(board.apps.get(self._app), now)}
        rules = effective_rules(self.watching.rules, board)
        declared = {rule.name for rule in rules}
        quiet = [span[1] for window in self.watching.quiet_hours if (span := window.span_at(now)) is not None]
        seen = Round(
            now,
            rules,
            looked_at(looks),
            breaches,
            foreign={rule.name for said in others.values() for rule in said.rules} - declared,
            elsewhere=looks.is_elsewhere,
            quiet=bool(quiet),
            quiet_until=max(quiet, default=None),
            ended=lambda alert: how_it_ended(alert, looks) if alert.check is Check.WORKER_SILENT else None,
            labels=self._labels,
        )
        everybodys = (*rules, *effective_rules(board.declared, board))
        missed = board.missed if looks.workers is None else still_missed(looks, everybodys)
        return evaluate(replace(board, apps=apps, outbox=(), missed=missed), seen)

    def _published(self, said: Published | None, now: datetime) -> Published:
        channels = tuple(sorted(channel.name for channel in self.watching.channels))
        fresh = Published(self.watching.rules, channels, now)
        if said is not None and abs(now - said.at) < SAID_AGAIN and replace(said, at=now) == fresh:
            return said
        return fresh

    def _delivered(self, notice: Notice, board: Board) -> tuple[NewJob, ...]:
        rules = {rule.name: rule for rule in effective_rules(self.watching.rules, board)}
        channels = self._told_by(rules.get(notice.rule))
        return self._deliveries(notice, channels) if channels else ()

    def _told_by(self, rule: AlertRule | None) -> Sequence[Channel]:
        """Return the channels through which a rule tells; all, if the app has none of those: somebody must hear."""
        if rule is None or rule.channels is None:
            return self.watching.channels
        own = tuple(each for each in self.watching.channels if each.name in rule.channels)
        if own or not rule.channels:
            return own
        if rule.name not in self._warned_of:
            self._warned_of.add(rule.name)
            log.warning(
                "rule %r tells channels that this app does not have (%s): it is told through all that it has",
                rule.name,
                ", ".join(rule.channels),
            )
        return self.watching.channels
