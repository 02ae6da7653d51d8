"""`standfast alerts set`: changes a rule while the fleet runs. And how rules wait, for their list."""

from typing import Any

import click
from msgspec.structs import replace

from standfast.alerts.board import amend_rule
from standfast.alerts.checking import check_rule
from standfast.cli.alertview import rule_fields
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.options import examples
from standfast.cli.output import Column, say, say_json
from standfast.cli.ruleoptions import (
    about_a_rule,
    counts_words,
    fitted,
    said_of_a_rule,
    span_words,
    written_of,
)
from standfast.core.alert import AlertRule
from standfast.store.errand import run_errand
from standfast.words import one_line


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
@about_a_store
def set_command(
    wanted: Wanted, /, rule: str, *, every_channel: bool, on: bool, off: bool, reset: bool, **options: Any
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
        amended = run_errand(backend.run, amend_rule(backend.verbs, rule, amend))
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
