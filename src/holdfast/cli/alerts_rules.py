"""`holdfast alerts set`: changes a rule while the fleet runs. And how rules wait, for their list."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import replace

from holdfast.alerts.board import amend_rule
from holdfast.alerts.checking import NEEDS, Unit, check_rule, read_amount
from holdfast.cli.alertview import above_words, rule_fields
from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.failures import wrong_usage
from holdfast.cli.options import examples
from holdfast.cli.output import Column, say, say_json
from holdfast.core.alert import AlertRule, Severity
from holdfast.store.errand import run_errand
from holdfast.watch.spans import read_span
from holdfast.words import one_line, span

_SPANS = ("over", "hold", "cool_down")


@click.command(
    "set",
    epilog=examples(
        "holdfast alerts set queue_age --above 10m --hold 2m",
        "holdfast alerts set failure_rate --above 0.8 --over 15m",
        "holdfast alerts set dead_letters --severity critical",
        "holdfast alerts set disk_full --off",
        "holdfast alerts set queue_age --reset",
    ),
)
@click.argument("rule")
@click.option("--above", metavar="VALUE", help="Beyond which it is broken: a span such as 5m, or a number.")
@click.option("--over", metavar="SPAN", help="How far back it looks: from a minute to 6 hours.")
@click.option("--hold", metavar="SPAN", help="For how long it must be broken before it fires.")
@click.option("--cool-down", metavar="SPAN", help="In which a subject is told of once at most.")
@click.option("--severity", type=click.Choice([each.value for each in Severity]), help="How bad it is.")
@click.option("--on", is_flag=True, help="Let it count.")
@click.option("--off", is_flag=True, help="Let it not count.")
@click.option("--reset", is_flag=True, help="Let it count as its app declares it.")
@about_a_store
def set_command(wanted: Wanted, /, rule: str, *, on: bool, off: bool, reset: bool, **said: Any) -> None:
    """Change a rule for the whole fleet, from its next look on.

    The change is kept in the store, and outlives workers and releases, until --reset.
    """
    changes = {name: value for name, value in said.items() if value is not None}
    if (on and off) or reset == bool(changes or on or off):
        raise wrong_usage(
            "say what to change: --above, --over, --hold, --cool-down, --severity, --on or --off; or --reset alone"
        )
    spans = {name: _span(name, changes[name]) for name in _SPANS if name in changes}
    written = {name: changes[name] for name in ("above", *spans) if name in changes}
    changes |= {**spans, **({"enabled": on} if on or off else {})}

    def amend(counting: AlertRule) -> AlertRule | None:
        return None if reset else _changed(counting, changes, written)

    with wanted.store() as backend:
        amended = amend_rule(backend.verbs, rule, amend)
        now = run_errand(backend.run, amended).after
    if wanted.as_json:
        say_json(rule_fields(now, () if reset else (rule,)))
    elif reset:
        say(f"Rule {one_line(rule)} counts as its app declares it.")
    else:
        say(f"Rule {one_line(rule)} {_counts(now, changes)}.")


def _span(name: str, text: str) -> timedelta:
    try:
        return read_span(text)
    except ValueError as error:
        raise wrong_usage(f"--{name.replace('_', '-')}: {error}") from error


def _changed(rule: AlertRule, changes: dict[str, Any], written: Mapping[str, str]) -> AlertRule:
    """Return a rule with changes. What is refused is shown as it was `written`."""
    if "over" in changes and not NEEDS[rule.check].over:
        raise wrong_usage(f"--over: {rule.check} looks at how things are, and not back")
    if "above" in changes:
        changes = {**changes, "above": _value(rule, changes["above"])}
    changed = replace(rule, **changes)
    check_rule(changed, written)
    return changed


def _value(rule: AlertRule, text: str) -> float:
    """Return what a text means as the `above` of a rule."""
    try:
        if NEEDS[rule.check].unit is Unit.SECONDS:
            return read_span(text).total_seconds()
        return read_amount(rule.check, text.strip())
    except ValueError as error:
        raise wrong_usage(f"--above: {error}") from error


def _counts(rule: AlertRule, changes: dict[str, Any]) -> str:
    """Return whether a rule counts, beyond what, and what else was changed of it."""
    words = ["counts" if rule.enabled else "does not count"]
    words += [f"above {above_words(rule)}"] if rule.above is not None else []
    words += [f"{name.replace('_', '-')} {_seconds(getattr(rule, name))}" for name in _SPANS if name in changes]
    words += [f"as {rule.severity}"] if "severity" in changes else []
    return ", ".join(words)


def waiting_columns() -> list[Column[AlertRule]]:
    """Return the columns of how long a rule waits: until it fires, is told of anew, and is told of again."""
    return [
        Column("HOLD", lambda rule: _seconds(rule.hold)),
        Column("COOL-DOWN", lambda rule: _seconds(rule.cool_down)),
        Column("REPEAT", lambda rule: "never" if rule.repeat is None else _seconds(rule.repeat)),
    ]


def _seconds(seconds: float) -> str:
    return span(timedelta(seconds=seconds)) if seconds else "none"
