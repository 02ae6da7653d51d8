"""Alerts, silences, rules and notices as tables, and as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from rich.text import Text

from standfast.alerts.checking import NEEDS, Unit
from standfast.alerts.delivery import Undelivered
from standfast.alerts.standing import Board
from standfast.alerts.telling import why_untold
from standfast.cli.output import Column, cut
from standfast.core.alert import Alert, AlertRule, AlertState, Notice, Severity, Silence
from standfast.core.states import FINAL
from standfast.words import dated, short_id, span

Missing = Mapping[str, Sequence[Undelivered]]
"""Deliveries that have not arrived, by the ids of their notices."""

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow"}


def alert_columns(now: datetime) -> list[Column[Alert]]:
    """Return the columns of alerts."""
    return [
        Column("ID", lambda alert: short_id(alert.id)),
        Column("STATE", lambda alert: state_of(alert, now), vital=2),
        Column("SEVERITY", lambda alert: Text(alert.severity, style=_STYLES.get(alert.severity, "")), vital=1),
        Column("RULE", lambda alert: cut(alert.rule), vital=3),
        Column("SINCE", lambda alert: dated(alert.since, now)),
        Column("WHAT", lambda alert: cut(alert.says), shrinks=True, vital=4),
    ]


def state_of(alert: Alert, now: datetime) -> str:
    """Return how an alert stands, what people have said about it, and why they have not heard of it."""
    says = why_untold(alert, now) if alert.state is AlertState.FIRING or alert.silenced else ""
    return f"{alert.state}, {says}" if says else alert.state.value


def silence_columns(now: datetime) -> list[Column[Silence]]:
    """Return the columns of silences."""
    return [
        Column("SILENCE", lambda silence: silence.id),
        Column("RULE", lambda silence: cut(silence.rule or "every rule")),
        Column("SUBJECT", lambda silence: cut(silence.subject or "every subject"), shrinks=True),
        Column("UNTIL", lambda silence: dated(silence.until, now)),
        Column("WHY", lambda silence: cut(silence.why), shrinks=True),
        Column("BY", lambda silence: cut(silence.by)),
    ]


def notice_columns(now: datetime, missing: Missing) -> list[Column[Notice]]:
    """Return the columns of what people were told, and of where it has not arrived, if that is so anywhere."""
    lacking: Column[Notice] = Column("NOT DELIVERED", lambda notice: cut(missing_words(notice, missing)), vital=2)
    return [
        Column("AT", lambda notice: dated(notice.at, now)),
        Column("WHAT", lambda notice: notice.kind.value),
        Column("RULE", lambda notice: cut(notice.rule)),
        Column("SAYS", lambda notice: cut(notice.title), shrinks=True, vital=1),
        *([lacking] if missing else []),
        Column("NOTICE", lambda notice: short_id(notice.id), from_width=110),
    ]


def missing_words(notice: Notice, missing: Missing) -> str:
    """Return through which channels a notice has not arrived: for good, or not yet."""
    return ", ".join(
        f"{each.channel} ({each.state.value if each.state in FINAL else 'not yet'})"
        for each in missing.get(notice.id, ())
    )


def notice_fields(notice: Notice, missing: Missing) -> dict[str, Any]:
    """Return a notice as JSON, with the deliveries of it that have not arrived."""
    fields: dict[str, Any] = msgspec.to_builtins(notice)
    return fields | {"undelivered": list(missing.get(notice.id, ()))}


def rule_columns(board: Board) -> list[Column[AlertRule]]:
    """Return the columns of rules; those that were changed or added at run time are marked."""
    marks = {**dict.fromkeys(board.changed, ", changed"), **dict.fromkeys(board.additions, ", added")}
    return [
        Column("RULE", lambda rule: cut(rule.name), vital=4),
        Column("CHECK", lambda rule: rule.check.value, vital=2),
        Column("ABOVE", above_words, vital=3),
        Column("ABOUT", lambda rule: cut(about(rule)), shrinks=True),
        Column("SEVERITY", lambda rule: rule.severity.value),
        Column("TELLS", lambda rule: cut("all" if rule.channels is None else ", ".join(rule.channels) or "nobody")),
        Column("COUNTS", lambda rule: f"{'yes' if rule.enabled else 'no'}{marks.get(rule.name, '')}"),
    ]


def above_words(rule: AlertRule) -> str:
    """Return beyond which value a rule is broken, as people say it."""
    unit, above = NEEDS[rule.check].unit, rule.above
    if above is None:
        return "its timeout" if NEEDS[rule.check].filters else ""
    match unit:
        case Unit.SECONDS:
            return span(timedelta(seconds=above))
        case Unit.SHARE:
            return f"{above:.0%}"
        case Unit.FACTOR:
            return f"{above:g} times"
        case _:
            return f"{above:g}"


def about(rule: AlertRule) -> str:
    """Return what a rule is about, and how far it looks back."""
    named = [f"{name} {given}" for name in ("queue", "task", "schedule") if (given := getattr(rule, name))]
    back = [f"of the last {span(timedelta(seconds=rule.over))}"] if NEEDS[rule.check].over else []
    least = [f"of {rule.at_least} at least"] if NEEDS[rule.check].at_least and rule.at_least > 1 else []
    return ", ".join([*named, *back, *least])


def alerts_fields(alerts: Iterable[Alert], board: Board, *, watched: bool) -> dict[str, Any]:
    """Return alerts and silences as JSON, and whether there is anybody who looks."""
    return {"alerts": list(alerts), "silences": list(board.silences), "watched": watched}


def rule_fields(rule: AlertRule, *, changed: bool = False, added: bool = False) -> dict[str, Any]:
    """Return a rule as JSON, every option with its value, and whether it was changed or added at run time."""
    return {name: getattr(rule, name) for name in rule.__struct_fields__} | {"changed": changed, "added": added}
