"""Alerts, silences, rules and notices as tables, and as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from msgspec.structs import replace
from rich.text import Text

from standfast.cli.connection import StoreOptions, examples, given, store_options
from standfast.cli.exit_codes import say_failed, wrong_usage
from standfast.cli.lookup import unknown_names
from standfast.cli.output import Column, cut, say, say_json
from standfast.model.alerts import Alert, AlertRule, AlertState, Check, Notice, Severity, Silence
from standfast.model.display import dated, one_line, short_id, span
from standfast.model.states import FINAL
from standfast.model.validation import read_span
from standfast.observe.alerts.alert_rules import NEEDS, Unit, check_rule, read_amount
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import add_rule, amend_rule, remove_rule
from standfast.observe.alerts.delivery import Undelivered
from standfast.observe.alerts.evaluation import why_untold
from standfast.stores.verb import run_procedure

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


# What commands say of a rule of alerts: the options that they share, and what is typed for them.

NEVER = "never"
_SPANS = ("over", "hold", "cool_down", "repeat")

about_a_rule = given(
    click.option("--above", metavar="VALUE", help="Beyond which it is broken: a span such as 5m, or a number."),
    click.option("--over", metavar="SPAN", help="How far back it looks: from a minute to 6 hours."),
    click.option("--at-least", type=int, metavar="N", help="How many there must be for a share to mean something."),
    click.option("--hold", metavar="SPAN", help="For how long it must be broken before it fires."),
    click.option("--cool-down", metavar="SPAN", help="In which a subject is told of once at most."),
    click.option("--repeat", metavar="SPAN", help=f"After which a firing alert is told again, or {NEVER}."),
    click.option("--severity", type=click.Choice([each.value for each in Severity]), help="How bad it is."),
    click.option("--channel", "channels", multiple=True, metavar="NAME", help="Who is told; may be repeated."),
)
"""The options of what can be said of a rule, also while the fleet runs."""


def said_of_a_rule(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options say: spans as such, and `above` as it is written, as it depends on the check."""
    said = {name: value for name, value in options.items() if value not in {None, ()}}
    return said | {name: _span(name, said[name]) for name in _SPANS if name in said}


def written_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what was typed, for refusals: by the names of the options that are read otherwise."""
    return {name: options[name] for name in ("above", *_SPANS) if options.get(name) is not None}


def fitted(check: Check, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said as the check of its rule has it. Raises click.UsageError for what that does not use."""
    if "over" in said and not NEEDS[check].over:
        raise wrong_usage(f"--over: {check} looks at how things are, and not back")
    if "at_least" in said and not NEEDS[check].at_least:
        raise wrong_usage(f"--at-least: {check} has neither a share nor a percentile")
    return {**said, "above": _amount(check, said["above"])} if "above" in said else dict(said)


def counts_words(rule: AlertRule, said: Mapping[str, Any]) -> str:
    """Return whether a rule counts, beyond what, and what else was said of it."""
    words = ["counts" if rule.enabled else "does not count"]
    words += [f"above {above_words(rule)}"] if rule.above is not None else []
    words += [f"{name.replace('_', '-')} {span_words(getattr(rule, name))}" for name in _SPANS if name in said]
    words += [f"of {rule.at_least} at least"] if "at_least" in said else []
    words += [f"as {rule.severity}"] if "severity" in said else []
    words += [f"told by {', '.join(rule.channels or ('every channel',))}"] if "channels" in said else []
    return ", ".join(words)


def span_words(seconds: float | None) -> str:
    """Return a span of a rule, as people say it."""
    if seconds is None:
        return NEVER
    return span(timedelta(seconds=seconds)) if seconds else "none"


def _span(name: str, text: str) -> timedelta | None:
    if name == "repeat" and text.strip().lower() == NEVER:
        return None
    try:
        return read_span(text)
    except ValueError as error:
        otherwise = f", or {NEVER}" if name == "repeat" else ""
        raise wrong_usage(f"--{name.replace('_', '-')}: {error}{otherwise}") from error


def _amount(check: Check, text: str) -> float:
    """Return what a text means as the `above` of a check."""
    try:
        if NEEDS[check].unit is Unit.SECONDS:
            return read_span(text).total_seconds()
        return read_amount(check, text.strip())
    except ValueError as error:
        raise wrong_usage(f"--above: {error}") from error


# `standfast alerts set`: changes a rule while the fleet runs. And how rules wait, for their list.


@click.command(
    "set",
    epilog=examples(
        "standfast alerts set queue_age --above 10m --hold 2m",
        "standfast alerts set failure_rate --above 0.8 --over 15m --at-least 50",
        "standfast alerts set dead_letters --severity critical --repeat 1h --channel pager --channel ops",
        "standfast alerts set disk_full --off",
        "standfast alerts set queue_age --reset",
    ),
)
@click.argument("rule")
@about_a_rule
@click.option("--every-channel", is_flag=True, help="Tell through all channels again.")
@click.option("--on", is_flag=True, help="Let it count.")
@click.option("--off", is_flag=True, help="Let it not count.")
@click.option("--reset", is_flag=True, help="Let it count as its app declares it.")
@store_options
def set_command(
    wanted: StoreOptions, /, rule: str, *, every_channel: bool, on: bool, off: bool, reset: bool, **options: Any
) -> None:
    """Change a rule for the whole fleet, from its next look on.

    The change is kept in the store, and outlives workers and releases, until --reset. What is not changed stays as
    the app declares it. A rule that was added by `standfast alerts add` is changed for good.
    """
    changes = said_of_a_rule(options)
    if every_channel and "channels" in changes:
        raise wrong_usage("--channel and --every-channel: say one of them")
    changes |= {**({"channels": None} if every_channel else {}), **({"enabled": on} if on or off else {})}
    if (on and off) or reset == bool(changes):
        raise wrong_usage(
            "say what to change: --above, --over, --at-least, --hold, --cool-down, --repeat, --severity, --channel,"
            " --every-channel, --on or --off; or --reset alone"
        )

    def amend(counting: AlertRule) -> AlertRule | None:
        if reset:
            return None
        changed = replace(counting, **fitted(counting.check, changes))
        check_rule(changed, written_of(options))
        return changed

    with wanted.store() as backend:
        amended = run_procedure(backend.run, amend_rule(backend.verbs, rule, amend))
    if wanted.as_json:
        say_json(rule_fields(amended.after, changed=amended.changed, added=amended.added))
    elif reset:
        say(f"Rule {one_line(rule)} counts as its app declares it.")
    else:
        say(f"Rule {one_line(rule)} {counts_words(amended.after, changes)}.")


def waiting_columns() -> list[Column[AlertRule]]:
    """Return the columns of how long a rule waits: until it fires, is told of anew, and is told of again."""
    return [
        Column("HOLD", lambda rule: span_words(rule.hold)),
        Column("COOL-DOWN", lambda rule: span_words(rule.cool_down)),
        Column("REPEAT", lambda rule: span_words(rule.repeat)),
    ]


# `standfast alerts add` and `remove`: rules for the whole fleet that no app declares.


@click.command(
    "add",
    epilog=examples(
        "standfast alerts add 'mail waits' --check queue_age --queue mail --above 5m --severity critical",
        "standfast alerts add 'mail fails' --check failure_rate --task send --above 20% --over 15m --at-least 50",
        "standfast alerts add 'no invoices' --check schedule_late --schedule invoices --above 1m --channel pager",
    ),
)
@click.argument("name")
@click.option("--check", required=True, type=click.Choice([each.value for each in Check]), help="What it looks at.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--task", metavar="NAME", help="Only this task.")
@click.option("--schedule", metavar="NAME", help="Only this schedule.")
@about_a_rule
@store_options
def add_command(wanted: StoreOptions, /, name: str, *, check: str, **options: Any) -> None:
    """Add a rule for the whole fleet, from its next look on.

    It is kept in the store, and outlives workers and releases, until it is removed. Should an app declare a rule of
    the same name, that one counts instead.
    """
    said = said_of_a_rule(options)
    rule = AlertRule(name=name, check=Check(check), **fitted(Check(check), said))
    check_rule(rule, written_of(options))
    with wanted.store() as backend:
        added = run_procedure(backend.run, add_rule(backend.verbs, rule))
        doubt = unknown_names(backend, rule.queue, rule.task)
    if doubt is not None:
        say_failed(f"warning: {doubt}")
    if wanted.as_json:
        say_json(rule_fields(added, added=True))
    else:
        say(f"Rule {one_line(name)} {counts_words(added, said)}.")


@click.command("remove", epilog=examples("standfast alerts remove 'mail waits'"))
@click.argument("name")
@store_options
def remove_command(wanted: StoreOptions, name: str) -> None:
    """Remove a rule that was added by `standfast alerts add`, or in the dashboard.

    Its alerts end without a word.
    """
    with wanted.store() as backend:
        removed = run_procedure(backend.run, remove_rule(backend.verbs, name))
    if wanted.as_json:
        say_json(rule_fields(removed, added=True))
    else:
        say(f"Rule {one_line(name)} is removed.")
