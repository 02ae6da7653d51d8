"""`standfast alerts silence`, `unsilence`, `ack` and `unack`: what people say about alerts."""

from datetime import timedelta

import click

from standfast.alerts.board import (
    NOT_TOLD,
    acknowledge,
    add_silence,
    counting_rules,
    end_silence,
    read_board,
    rule_named,
    unacknowledge,
)
from standfast.alerts.defaults import DEFAULT_RULES
from standfast.alerts.standing import Board
from standfast.cli.alerts_subjects import subject_doubt
from standfast.cli.confirming import person
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import say_failed
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.typed import as_span_with_unit
from standfast.core.alert import AlertRule
from standfast.errors import ConfigurationError
from standfast.store.errand import run_errand
from standfast.store.protocol import ask_time
from standfast.words import dated, one_line, short_id


@click.command(
    epilog=examples(
        "standfast alerts silence queue_age --for 2h --why 'the provider is down'",
        "standfast alerts silence failure_rate --subject send_email --for 1d",
        "standfast alerts silence --subject send_email --for 1h",
    )
)
@click.argument("rule", required=False)
@click.option("--subject", metavar="NAME", help="Only of this queue, task, worker or schedule.")
@click.option(
    "--for", "length", required=True, callback=as_span_with_unit, metavar="SPAN", help="How long: 30m, 2h, 1d."
)
@click.option("--why", default="", metavar="TEXT", help="The reason, for others.")
@about_a_store
def silence(wanted: Wanted, rule: str | None, *, subject: str | None, length: timedelta, why: str) -> None:
    """Tell nobody of a rule, of a subject or of both for a while, 30 days at most.

    What it covers is still looked at and listed. What still fires at the end is told then.
    """
    with wanted.store() as backend:
        board = run_errand(backend.run, read_board(backend.verbs))
        named = None if rule is None else _rule(rule, board)
        made = run_errand(backend.run, add_silence(backend.verbs, rule, subject, length, why=why, by=person()))
        doubt = None if subject is None else subject_doubt(backend, board, named, subject)
        now = backend.run(ask_time(backend.verbs)).now
    if doubt is not None:
        say_failed(f"warning: {doubt}")
    if wanted.as_json:
        say_json(made)
    else:
        about = f"{one_line(rule or 'anything')}{'' if subject is None else f' about {one_line(subject)}'}"
        say(f"Nobody is told of {about} until {dated(made.until, now)}: silence {made.id}.")


def _rule(rule: str, board: Board) -> AlertRule:
    """Return a rule, unless there is none. Before apps have declared theirs, those from the start are known."""
    counting = counting_rules(board)
    try:
        return rule_named(counting if board.declared else (*DEFAULT_RULES, *counting), rule)
    except ConfigurationError as error:
        raise (error if board.declared else ConfigurationError(f"{error} ({NOT_TOLD})")) from None


@click.command(epilog=examples("standfast alerts unsilence 3f2a9c01d2e4"))
@click.argument("silence_id", metavar="ID")
@about_a_store
def unsilence(wanted: Wanted, silence_id: str) -> None:
    """End a silence now.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        ended = run_errand(backend.run, end_silence(backend.verbs, silence_id))
    if wanted.as_json:
        say_json(ended)
    else:
        say(f"Silence {one_line(ended.id)} has ended.")


@click.command(epilog=examples("standfast alerts ack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@about_a_store
def ack(wanted: Wanted, alert_id: str) -> None:
    """Say that you know of an alert: it is not told again while it lasts.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        alert = run_errand(backend.run, acknowledge(backend.verbs, alert_id, person()))
    if wanted.as_json:
        say_json(alert)
    else:
        who = one_line(alert.acknowledged_by or "")
        say(f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to {who}.")


@click.command(epilog=examples("standfast alerts unack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@about_a_store
def unack(wanted: Wanted, alert_id: str) -> None:
    """Take back that somebody knows of an alert: it is told as if nobody had.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        alert = run_errand(backend.run, unacknowledge(backend.verbs, alert_id))
    if wanted.as_json:
        say_json(alert)
    else:
        say(f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to nobody.")
