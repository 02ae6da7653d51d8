"""The words of notices: what a group of alerts of one rule is called. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from standfast.core.alert import Alert, Check, Held, Notice, NoticeKind, Severity
from standfast.ids import new_job_id
from standfast.words import counted, moment, span

NAMED = 5
"""How many alerts a notice names."""

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


def why_untold(alert: Alert, now: datetime) -> str:
    """Return why people have not heard of an alert that fires, and until when; nothing where they have.

    It is as the last round found: what is over since then is told by the next one.
    """
    says = heard(alert)
    if says == TOLD:
        return ""
    lasts = alert.held_until is not None and alert.held_until > now
    until = f" until {moment(alert.held_until, now)}" if alert.held_until is not None and lasts else ""
    if says != NOT_TOLD_YET:
        return f"{says}{until if alert.held is Held.SILENCE else ''}"
    return f"{says}: {alert.held}{until}" if lasts else f"{says}: waits for the next round"


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


def words_of_the_end(alert: Alert) -> str:
    """Return what is said of an alert that is over, of whose end nothing else is known."""
    return f"{'nothing new of this' if alert.check in _HAPPENINGS else 'no longer so'}: {alert.says}"
