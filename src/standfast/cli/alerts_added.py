"""`standfast alerts add` and `remove`: rules for the whole fleet that no app declares."""

from typing import Any

import click

from standfast.alerts.added import add_rule, remove_rule
from standfast.alerts.checking import check_rule
from standfast.cli.alertview import rule_fields
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import say_failed
from standfast.cli.lookup import unknown_names
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.ruleoptions import about_a_rule, counts_words, fitted, said_of_a_rule, written_of
from standfast.core.alert import AlertRule, Check
from standfast.store.errand import run_errand
from standfast.words import one_line


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
@about_a_store
def add_command(wanted: Wanted, /, name: str, *, check: str, **options: Any) -> None:
    """Add a rule for the whole fleet, from its next look on.

    It is kept in the store, and outlives workers and releases, until it is removed. Should an app declare a rule of
    the same name, that one counts instead.
    """
    said = said_of_a_rule(options)
    rule = AlertRule(name=name, check=Check(check), **fitted(Check(check), said))
    check_rule(rule, written_of(options))
    with wanted.store() as backend:
        added = run_errand(backend.run, add_rule(backend.verbs, rule))
        doubt = unknown_names(backend, rule.queue, rule.task)
    if doubt is not None:
        say_failed(f"warning: {doubt}")
    if wanted.as_json:
        say_json(rule_fields(added, added=True))
    else:
        say(f"Rule {one_line(name)} {counts_words(added, said)}.")


@click.command("remove", epilog=examples("standfast alerts remove 'mail waits'"))
@click.argument("name")
@about_a_store
def remove_command(wanted: Wanted, name: str) -> None:
    """Remove a rule that was added by `standfast alerts add`, or in the dashboard.

    Its alerts end without a word.
    """
    with wanted.store() as backend:
        removed = run_errand(backend.run, remove_rule(backend.verbs, name))
    if wanted.as_json:
        say_json(rule_fields(removed, added=True))
    else:
        say(f"Rule {one_line(name)} is removed.")
