"""One round for the whole fleet: look, judge, write. Whoever comes second, or dies on the way, does no harm.

    the board ─► looks ─► judged ─► board, with the delivery of what is told, by comparison of versions ─► filed

Where others were faster, all of it is done again: what was looked at before they wrote may be over by what they
have seen, and must not be told after it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.alerts.board import effective_rules, writing
from standfast.alerts.breach import Breach
from standfast.alerts.channel import Channel
from standfast.alerts.checks import breaches_of, looked_at
from standfast.alerts.examples import with_examples
from standfast.alerts.judge import Judged, Round, judge
from standfast.alerts.looks import Looks
from standfast.alerts.notices import filing
from standfast.alerts.scout import Here, Scout
from standfast.alerts.seeing import MOST, Seen, see
from standfast.alerts.silent_workers import how_it_ended, still_missed
from standfast.alerts.standing import SAID_AGAIN, Board, Published
from standfast.alerts.watching import Watching
from standfast.core.alert import Alert, AlertRule, Check, Notice
from standfast.core.job import NewJob
from standfast.errors import StoreUnavailableError
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import QueueAges, Store

log = logging.getLogger(__name__)

TRIES = 10
"""How often a round is begun anew because others have changed the board meanwhile."""

FORGOTTEN = timedelta(hours=3)
"""After which time what an app declared, and has not said again, is forgotten."""

Deliveries = Callable[[Notice, Sequence[Channel]], tuple[NewJob, ...]]
"""Makes the jobs that bring a notice to channels."""


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a round: what is told, what has begun and ended, how the board stands, how old queues are."""

    now: datetime
    board: Board
    notices: tuple[Notice, ...] = ()
    fired: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()
    ages: QueueAges | None = None


class Keeper:
    """Makes the rounds of one process, for one app."""

    def __init__(
        self,
        watching: Watching,
        *,
        app: str = "",
        labels: Mapping[str, str] | None = None,
        deliveries: Deliveries = lambda _notice, _channels: (),
    ) -> None:
        self.watching = watching
        self._app = app
        self._labels = labels or {}
        self._deliveries = deliveries
        self.scout = Scout(watching)
        self._warned = False
        self._warned_of = set[str]()

    @errand
    def round(self, verbs: Store, wanted: AbstractSet[Check], here: Here) -> Verbs[Made]:
        """Look at what is wanted, as far as rules are about it, and write down what follows."""
        for _ in range(TRIES):
            seen: Seen = yield from see(verbs)
            self._warn_of(seen)
            looks, breaches = yield from self._look(verbs, wanted, here, seen.board)
            if seen.board.outbox:  # somebody told it, and left it to the next round to clear
                yield verbs.change_records([filing(notice) for notice in seen.board.outbox])
            judged = self._judge(seen.board, breaches, looks)
            if judged.board == seen.board and not seen.unfit:
                return Made(looks.now, seen.board, ages=looks.ages)
            jobs = tuple(job for notice in judged.notices for job in self._delivered(notice, judged.board))
            (made,) = yield verbs.change_records([writing(seen, judged.board, jobs)])
            if made:
                if judged.notices:
                    yield verbs.change_records([filing(notice) for notice in judged.notices])
                return Made(looks.now, judged.board, judged.notices, judged.fired, judged.resolved, looks.ages)
        raise StoreUnavailableError("others have changed the alerts again and again meanwhile")

    def _warn_of(self, seen: Seen) -> None:
        """Say that something of the board counts for nothing: once, for as long as it is so."""
        warned, self._warned = self._warned, bool(seen.strange or seen.unfit)
        if self._warned and not warned:
            log.warning(
                "%d entries of the board of alerts cannot be read, or gone by, and are left out:"
                " they are damaged, or of another release",
                seen.strange + seen.unfit,
            )

    def _look(
        self, verbs: Store, wanted: AbstractSet[Check], here: Here, board: Board
    ) -> Verbs[tuple[Looks, tuple[Breach, ...]]]:
        rules = effective_rules(self.watching.rules, board)
        looks = yield from self.scout.look(verbs, rules, wanted, board, here)
        known = {(alert.rule, alert.subject): alert for alert in board.alerts}
        breaches = tuple(breaches_of(rules, looks, known.keys()))
        return looks, (yield from with_examples(verbs, breaches, known))

    def _judge(self, board: Board, breaches: Sequence[Breach], looks: Looks) -> Judged:
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
        return judge(replace(board, apps=apps, outbox=(), missed=missed), seen)

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
