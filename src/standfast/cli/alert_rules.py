"""`standfast alerts set`, `add`, `remove` and `rules`: rules of alerts for the whole fleet."""

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import click

from standfast.admin.alerts import (
    RuleAddAsked,
    RuleChangeAsked,
    RuleSeen,
    add_new_rule,
    change_rule,
    list_alerts,
    list_rules,
    remove_added_rule,
    reset_rule,
)
from standfast.admin.executor import AdminSession
from standfast.admin.fields import Named
from standfast.admin.operation import Answer, Asked, Operation, WrongRequestError
from standfast.cli.connection import StoreOptions, examples, given, store_options
from standfast.cli.exit_codes import say_failed, wrong_usage
from standfast.cli.lookup import unknown_names
from standfast.cli.output import Column, answer, cut, say, say_list
from standfast.model.alerts import Check, Severity
from standfast.model.display import one_line, span
from standfast.observe.alerts.alert_rules import Unit
from standfast.observe.alerts.board_changes import NOT_TOLD

NO_WORKER = "No worker lives, so nobody looks for trouble: this is as the last look left it."
NO_RULES = (
    "Workers live, but none has told its rules lately, so nobody looks for trouble: they have just started, or"
    " alerts are switched off, as `standfast doctor MODULE:APP` tells. This is as the last look left it."
)
NEVER = "never"
_SPANS = ("over", "hold", "cool_down", "repeat")
_FIELD = re.compile(rf"^(above|{'|'.join(_SPANS)}): ")

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


def _said(options: dict[str, Any]) -> dict[str, Any]:
    """Return what the options say."""
    said = {name: value for name, value in options.items() if value not in {None, ()}}
    return said | ({"severity": Severity(said["severity"])} if "severity" in said else {})


def _run(admin: AdminSession, operation: Operation[Asked, Answer], asked: Asked) -> Answer:
    """Run an operation; tell what is wrong with a field by the name of its option."""
    try:
        return admin.run(operation, asked)
    except WrongRequestError as error:
        if _FIELD.match(str(error)) is None:
            raise
        words = _FIELD.sub(lambda field: f"--{field[1].replace('_', '-')}: ", str(error))
        raise wrong_usage(f"{words}, or {NEVER}" if words.startswith("--repeat: ") else words) from error


def _columns() -> list[Column[RuleSeen]]:
    return [
        Column("RULE", lambda rule: cut(rule.name), vital=4),
        Column("CHECK", lambda rule: rule.check.value, vital=2),
        Column("ABOVE", _above_words, vital=3),
        Column("ABOUT", lambda rule: cut(_about(rule)), shrinks=True),
        Column("SEVERITY", lambda rule: rule.severity.value),
        Column("TELLS", lambda rule: cut("all" if rule.channels is None else ", ".join(rule.channels) or "nobody")),
        Column("COUNTS", _counts),
        Column("HOLD", lambda rule: _span_words(rule.hold)),
        Column("COOL-DOWN", lambda rule: _span_words(rule.cool_down)),
        Column("REPEAT", lambda rule: _span_words(rule.repeat)),
    ]


def _counts(rule: RuleSeen) -> str:
    mark = ", added" if rule.added else ", changed" if rule.changed else ""
    return f"{'yes' if rule.enabled else 'no'}{mark}"


def _above_words(rule: RuleSeen) -> str:
    """Return beyond which value a rule is broken, as people say it."""
    if rule.above is None:
        return "its timeout" if rule.check is Check.JOB_TOO_LONG else ""
    match Unit[rule.unit.upper()]:
        case Unit.SECONDS:
            return span(timedelta(seconds=rule.above))
        case Unit.SHARE:
            return f"{rule.above:.0%}"
        case Unit.FACTOR:
            return f"{rule.above:g} times"
        case _:
            return f"{rule.above:g}"


def _about(rule: RuleSeen) -> str:
    """Return what a rule is about, and how far it looks back."""
    named = [f"{name} {given}" for name in ("queue", "task", "schedule") if (given := getattr(rule, name))]
    back = [f"of the last {span(timedelta(seconds=rule.over))}"] if rule.looks_back else []
    least = [f"of {rule.at_least} at least"] if rule.needs_enough and rule.at_least > 1 else []
    return ", ".join([*named, *back, *least])


def _counts_words(rule: RuleSeen, said: Collection[str]) -> str:
    """Return whether a rule counts, beyond what, and what else was said of it."""
    words = ["counts" if rule.enabled else "does not count"]
    words += [f"above {_above_words(rule)}"] if rule.above is not None else []
    words += [f"{name.replace('_', '-')} {_span_words(getattr(rule, name))}" for name in _SPANS if name in said]
    words += [f"of {rule.at_least} at least"] if "at_least" in said else []
    words += [f"as {rule.severity}"] if "severity" in said else []
    words += [f"told by {', '.join(rule.channels or ('every channel',))}"] if "channels" in said else []
    return ", ".join(words)


def _span_words(seconds: float | None) -> str:
    if seconds is None:
        return NEVER
    return span(timedelta(seconds=seconds)) if seconds else "none"


@click.command("rules", epilog=examples("standfast alerts rules", "standfast alerts rules --json"))
@store_options
def rules_command(wanted: StoreOptions) -> None:
    """List the rules that count, as workers declare them and as they were changed and added since."""
    with wanted.admin() as admin:
        rules, seen = admin.run(list_rules).rules, admin.run(list_alerts)
    say_list(wanted, rules, _columns(), f"{NOT_TOLD[0].upper()}{NOT_TOLD[1:]}.")
    if rules and not wanted.as_json and not seen.watched:
        say(NO_RULES if seen.living else NO_WORKER)


# `standfast alerts set`: changes a rule while the fleet runs.


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
    changes = _said(options)
    if every_channel and "channels" in changes:
        raise wrong_usage("--channel and --every-channel: say one of them")
    changes |= {**({"every_channel": True} if every_channel else {}), **({"enabled": on} if on or off else {})}
    if (on and off) or reset == bool(changes):
        raise wrong_usage(
            "say what to change: --above, --over, --at-least, --hold, --cool-down, --repeat, --severity, --channel,"
            " --every-channel, --on or --off; or --reset alone"
        )
    with wanted.admin() as admin:
        if reset:
            done = admin.run(reset_rule, Named(name=rule))
        else:
            done = _run(admin, change_rule, RuleChangeAsked(name=rule, same=True, **changes))
    said = changes.keys() | ({"channels"} if every_channel else set())
    counts = "counts as its app declares it" if reset else _counts_words(done, said)
    answer(wanted, done, f"Rule {one_line(rule)} {counts}.")


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
    said = _said(options)
    with wanted.admin() as admin:
        added = _run(admin, add_new_rule, RuleAddAsked(name=name, check=Check(check), **said))
        doubt = unknown_names(admin.backend, added.queue, added.task)
    if doubt is not None:
        say_failed(f"warning: {doubt}")
    answer(wanted, added, f"Rule {one_line(name)} {_counts_words(added, said)}.")


@click.command("remove", epilog=examples("standfast alerts remove 'mail waits'"))
@click.argument("name")
@store_options
def remove_command(wanted: StoreOptions, name: str) -> None:
    """Remove a rule that was added by `standfast alerts add`, or in the dashboard.

    Its alerts end without a word.
    """
    answer(wanted, wanted.run(remove_added_rule, Named(name=name)), f"Rule {one_line(name)} is removed.")
