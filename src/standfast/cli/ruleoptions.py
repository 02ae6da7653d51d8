"""What commands say of a rule of alerts: the options that they share, and what is typed for them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import click

from standfast.alerts.checking import NEEDS, Unit, read_amount
from standfast.cli.alertview import above_words
from standfast.cli.failures import wrong_usage
from standfast.cli.options import given
from standfast.core.alert import AlertRule, Check, Severity
from standfast.watch.spans import read_span
from standfast.words import span

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
