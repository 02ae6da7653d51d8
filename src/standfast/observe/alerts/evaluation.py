"""What follows from a look: which alerts begin, fire and end, and what people are told. Pure.

    broken ─► pending ─(for `hold`)─► firing ─(broken no more)─► resolved
                 └─(broken no more)─► forgotten, or resolved if people believe it to fire from before

If its rule is switched off, or nobody declares it any more, an alert is forgotten: nothing was resolved, and people are
told nothing. People are told that an alert fires unless they believe so already, and that it is resolved if they do;
each of the two at most once per `cool_down` for a subject of a rule. Of incidents that they know nothing of, and of
what has become critical, they are told again after the `cool_down`, also where they have acknowledged what was before.
What cannot be told now, because it is too soon, silenced or quiet, is told later if it is still true.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.model.alerts import (
    Alert,
    AlertRule,
    AlertState,
    Check,
    Held,
    Notice,
    NoticeKind,
    Severity,
    Silence,
    Silenced,
)
from standfast.model.display import counted, span
from standfast.model.ids import new_job_id
from standfast.observe.alerts.board import Board, Said
from standfast.observe.alerts.observations import Breach, Key, by_key

NAMED = 5  # how many alerts a notice names
_HAPPENINGS = frozenset({Check.INCIDENT, Check.DEAD_LETTERS, Check.SCHEDULE_MISSED})
"""What is not undone: no more of it has happened for a while, which is why it is over."""

TOLD, NOT_TOLD_YET = "told", "not told yet"


def heard(alert: Alert) -> str:
    """Return whether people have heard of an alert that fires, and what they have said about it."""
    if alert.silenced:
        return "silenced"
    if alert.acknowledged_at is not None:
        return "acknowledged"
    return NOT_TOLD_YET if alert.untold else TOLD


def notice_of(kind: NoticeKind, alerts: Sequence[Alert], now: datetime, labels: Mapping[str, str]) -> Notice:
    """Return the notice of alerts of one rule of which people hear at once, the worst of them first."""
    ranked = sorted(alerts, key=lambda each: (each.severity is not Severity.CRITICAL, -(each.value or 0.0)))
    return Notice(
        id=new_job_id(),
        kind=kind,
        at=now,
        rule=ranked[0].rule,
        severity=ranked[0].severity,
        title=title_of(kind, ranked, now),
        alerts=tuple(ranked[:NAMED]),
        more=max(len(ranked) - NAMED, 0),
        labels=labels,
    )


def title_of(kind: NoticeKind, alerts: Sequence[Alert], now: datetime) -> str:
    """Return what is told, in one line."""
    first = alerts[0]
    lasted = span((first.resolved_at or now) - (first.fired_at or first.since))
    many = len(alerts) > 1
    what = f"{counted(len(alerts), 'alert')} of {first.rule}, such as: {first.says}" if many else first.says
    match kind:
        case NoticeKind.RESOLVED:
            return what if many else f"{what}; the alert fired for {lasted}"
        case NoticeKind.REPEATED:
            news = sum(alert.news for alert in alerts)
            if any(alert.is_worse for alert in alerts):
                return f"{what}; critical by now"
            return f"{what}; {news:,} new since this was last told" if news else f"{what}, still after {lasted}"
        case _:
            return what


MOST_SAID = 15_000  # so much of what people were told is remembered, the latest: less than may be on a board
FORGOTTEN_AFTER = timedelta(days=30)
"""So long it is remembered at most that people believe something to be firing of which nobody knows any more."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a round knows.

    now: the store's time; rules: those that count here, switched off ones too; looked: what was looked at;
    breaches: what was found; foreign: names of rules that others look after; elsewhere: tells of which alerts only
    others can know; quiet: whether only what is critical is told, and quiet_until: until when; ended: says in which
    way a firing alert has ended; labels: for the notices.
    """

    now: datetime
    rules: Sequence[AlertRule]
    looked: AbstractSet[Check]
    breaches: Sequence[Breach] = ()
    foreign: AbstractSet[str] = frozenset()
    elsewhere: Callable[[Alert], bool] = lambda _: False
    quiet: bool = False
    quiet_until: datetime | None = None
    ended: Callable[[Alert], str | None] = lambda _: None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What follows: the next board, what people are told, and which alerts have fired and ended."""

    board: Board
    notices: tuple[Notice, ...] = ()
    fired: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()


def evaluate(board: Board, seen: Round) -> Evaluation:
    """Return what follows from a round for a board."""
    silences = tuple(each for each in board.silences if each.until > seen.now)
    before = {(alert.rule, alert.subject): alert for alert in board.alerts}
    believed = {(each.rule, each.subject) for each in board.said if each.firing}
    after = list(_next_alerts(before, seen, believed))
    fired = tuple(alert for alert in after if alert.fired_at == seen.now and alert.state is AlertState.FIRING)
    resolved = tuple(alert for alert in after if alert.resolved_at == seen.now and alert.fired_at is not None)
    teller = _NoticeWriter(seen, silences, {(each.rule, each.subject): each for each in _still_said(board, seen)})
    told = tuple(alert for each in after if (alert := teller.tell(each)) is not None)
    notices = tuple(teller.notices())
    fresh = replace(
        board,
        alerts=told,
        said=tuple(teller.remembered(told))[-MOST_SAID:],
        silences=silences,
        outbox=(*board.outbox, *notices),
    )
    return Evaluation(fresh, notices, fired, resolved)


def _still_said(board: Board, seen: Round) -> Iterator[Said]:
    """Yield what was said that still matters; what people have switched off is as if never said."""
    rules = {rule.name: rule for rule in seen.rules}
    changed = {**board.overrides, **board.additions}
    for said in board.said:
        override = changed.get(said.rule)
        if not _is_ruled_out(said.rule, rules, seen):
            yield said
        elif override is None or override.enabled:
            yield replace(said, firing=False)


def _next_alerts(before: Mapping[Key, Alert], seen: Round, believed: AbstractSet[Key]) -> Iterator[Alert]:
    rules = {rule.name: rule for rule in seen.rules}
    broken = by_key((each for each in seen.breaches if each.rule.enabled), before.keys())
    for key, alert in before.items():
        breach = broken.get(key)
        if breach is not None:
            yield _broken(breach, alert, seen.now)
        elif _is_ruled_out(alert.rule, rules, seen):
            continue
        elif alert.rule not in rules or rules[alert.rule].check not in seen.looked or seen.elsewhere(alert):
            yield alert  # nobody has looked at what it is about
        elif alert.state is AlertState.FIRING or (alert.state is AlertState.PENDING and key in believed):
            over = "nothing new of this" if alert.check in _HAPPENINGS else "no longer so"
            says = seen.ended(alert) or f"{over}: {alert.says}"
            yield replace(alert, state=AlertState.RESOLVED, resolved_at=seen.now, says=says)
        elif alert.state is AlertState.RESOLVED:
            yield alert
    for key, breach in broken.items():
        if key not in before:
            yield _broken(breach, None, seen.now)


def _is_ruled_out(name: str, rules: Mapping[str, AlertRule], seen: Round) -> bool:
    """Tell whether a rule counts no more, for anybody."""
    rule = rules.get(name)
    return name not in seen.foreign if rule is None else not rule.enabled


def _broken(breach: Breach, alert: Alert | None, now: datetime) -> Alert:
    """Return the alert of a breach: the one that there is, or one that begins."""
    if alert is None or alert.state is AlertState.RESOLVED:
        told_at = None if alert is None else alert.told_at
        alert = Alert(
            id=new_job_id(),
            rule=breach.rule.name,
            check=breach.rule.check,
            subject=breach.subject,
            severity=breach.rule.severity,
            state=AlertState.PENDING,
            says=breach.says,
            since=now,
            told_at=told_at,
        )
    alert = replace(
        alert,
        severity=breach.severity or breach.rule.severity,
        says=breach.says,
        since=min(alert.since, now),
        value=breach.value,
        count=breach.count,
        examples=breach.examples or alert.examples,
    )
    alert = _with_news(alert, breach, now)
    if alert.state is AlertState.PENDING and now - alert.since >= timedelta(seconds=breach.rule.hold):
        return replace(alert, state=AlertState.FIRING, fired_at=now)
    return alert


def _with_news(alert: Alert, breach: Breach, now: datetime) -> Alert:
    """Return an alert with how many incidents there are. Who has acknowledged it knows of no later ones.

    They count from what the rule looked back to when it was last told, or began: so what is over by time, or was
    forgotten, is not made up for by what is new.
    """
    first = max(alert.since, min(alert.told_at or alert.since, now)) - timedelta(seconds=breach.rule.over)
    happened = sum(at >= first for at in breach.happened_at)
    alert = replace(alert, happened=happened, known=min(alert.known, happened))
    is_news = alert.news or alert.is_worse
    return replace(alert, acknowledged_at=None, acknowledged_by=None) if is_news else alert


class _NoticeWriter:
    """Decides what people are told."""

    def __init__(self, seen: Round, silences: Sequence[Silence], said: Mapping[Key, Said]) -> None:
        self._seen = seen
        self._rules = {rule.name: rule for rule in seen.rules}
        self._silenced = Silenced(silences)
        self._said = dict(said)
        self._groups: dict[tuple[str, NoticeKind], list[Alert]] = {}

    def tell(self, alert: Alert) -> Alert | None:
        """Tell of an alert what is to be told; return it as it goes on, None if that is all."""
        alert = replace(alert, silenced=alert in self._silenced, held=None, held_until=None)
        rule, now = self._rules.get(alert.rule), self._seen.now
        if alert.state is AlertState.PENDING or (rule is None and alert.rule in self._seen.foreign):
            return alert
        said = self._said.get((alert.rule, alert.subject)) or Said(alert.rule, alert.subject)
        wanted = _wanted(alert, said, rule, now)
        if wanted is None:
            return alert if alert.state is AlertState.FIRING or said.firing else None
        kind, told_at = wanted
        held = self._held(alert, None if rule is None else timedelta(seconds=rule.cool_down), told_at)
        if held is not None:
            return replace(alert, held=held[0], held_until=held[1])
        if kind is NoticeKind.RESOLVED:
            self._say(alert, kind, replace(said, firing=False, resolved_at=now))
            return None
        alert = replace(alert, told_at=now)
        self._say(alert, kind, replace(said, firing=True, fired_at=now))
        known = alert.count if alert.happened else 0
        return replace(alert, happened=known, known=known, told_as=alert.severity)

    def _held(
        self, alert: Alert, cool_down: timedelta | None, told_at: datetime | None
    ) -> tuple[Held, datetime | None] | None:
        """Return what keeps people from being told now, and until when; None if nothing does."""
        if alert.silenced:
            return Held.SILENCE, self._silenced.until(alert)
        if self._seen.quiet and alert.severity is not Severity.CRITICAL:
            return Held.QUIET_HOURS, self._seen.quiet_until
        if cool_down is not None and told_at is not None and _is_within(cool_down, told_at, self._seen.now):
            return Held.COOL_DOWN, told_at + cool_down
        return None

    def _say(self, alert: Alert, kind: NoticeKind, said: Said) -> None:
        self._said[alert.rule, alert.subject] = said
        self._groups.setdefault((alert.rule, kind), []).append(alert)

    def notices(self) -> Iterator[Notice]:
        """Yield what is told: of each rule all that fires, and all that is resolved, at once."""
        for (_, kind), alerts in self._groups.items():
            yield notice_of(kind, alerts, self._seen.now, self._seen.labels)

    def remembered(self, alerts: Iterable[Alert]) -> Iterator[Said]:
        """Yield what is to be remembered of what was said: until nothing depends on it."""
        standing = {(alert.rule, alert.subject) for alert in alerts}
        for key, said in self._said.items():
            rule = self._rules.get(said.rule)
            keep = FORGOTTEN_AFTER if rule is None else timedelta(seconds=rule.cool_down)
            lately = any(_is_within(keep, at, self._seen.now) for at in (said.fired_at, said.resolved_at))
            if key in standing or lately:
                yield said


def _wanted(
    alert: Alert, said: Said, rule: AlertRule | None, now: datetime
) -> tuple[NoticeKind, datetime | None] | None:
    """Return what people should hear of an alert, and when they last heard the like; None if there is nothing."""
    if alert.state is AlertState.RESOLVED:
        return (NoticeKind.RESOLVED, said.resolved_at) if said.firing else None
    is_known = alert.acknowledged_at is not None  # who has acknowledged it need not hear of it, or not again
    if not said.firing:
        return None if is_known else (NoticeKind.FIRING, said.fired_at)
    last = alert.told_at or said.fired_at
    if alert.news or alert.is_worse:
        return NoticeKind.REPEATED, last
    repeat = None if rule is None or is_known else rule.repeat
    if repeat is not None and last is not None and not _is_within(timedelta(seconds=repeat), last, now):
        return NoticeKind.REPEATED, None
    return None


def _is_within(span: timedelta, at: datetime | None, now: datetime) -> bool:
    """Tell whether less than a span has passed since. What lies ahead was told before a clock was set back."""
    return at is not None and timedelta() <= now - at < span
