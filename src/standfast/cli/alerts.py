"""`standfast alerts`: what is wrong now, and who is told of it. What changes something is beside it."""

from datetime import datetime

import click

from standfast.alerts.board import NOT_TOLD, alert_history, counting_rules, read_board
from standfast.alerts.delivery import undelivered
from standfast.alerts.standing import Board
from standfast.cli.alerts_added import add_command, remove_command
from standfast.cli.alerts_rules import set_command, waiting_columns
from standfast.cli.alerts_silence import ack, silence, unack, unsilence
from standfast.cli.alerts_test import test
from standfast.cli.alertview import (
    alert_columns,
    alerts_fields,
    notice_columns,
    notice_fields,
    rule_columns,
    rule_fields,
    silence_columns,
)
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json, say_table
from standfast.core.alert import AlertState
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.store.protocol import ask_time

NO_WORKER = "No worker lives, so nobody looks for trouble: this is as the last look left it."
NO_RULES = (
    "Workers live, but none has told its rules lately, so nobody looks for trouble: they have just started, or"
    " alerts are switched off, as `standfast doctor MODULE:APP` tells. This is as the last look left it."
)


@click.group(
    epilog=examples(
        "standfast alerts list",
        "standfast alerts silence queue_age --subject mail --for 2h --why 'provider is down'",
        "standfast alerts set failure_rate --above 0.8",
        "standfast alerts add 'mail waits' --check queue_age --queue mail --above 5m",
        "standfast alerts test myproject.jobs:app",
    )
)
def alerts() -> None:
    """See what is wrong, who is told of it, and change that."""


for _command in (silence, unsilence, ack, unack, set_command, add_command, remove_command, test):
    alerts.add_command(_command)


@alerts.command(
    "list", epilog=examples("standfast alerts list", "standfast alerts list --all", "standfast alerts list --json")
)
@click.option("--all", "every", is_flag=True, help="Also those that are pending, or resolved and not told yet.")
@about_a_store
def list_command(wanted: Wanted, *, every: bool) -> None:
    """List the alerts that fire, and the silences."""
    with wanted.store() as backend:
        board = run_errand(backend.run, read_board(backend.verbs))
        now = backend.run(ask_time(backend.verbs)).now
        unwatched = _why_nobody_looks(backend, board, now)
    shown = board.in_state(*AlertState) if every else board.firing
    if wanted.as_json:
        say_json(alerts_fields(shown, board, watched=unwatched is None))
        return
    if shown:
        say_table(shown, alert_columns(now))
    else:
        say("No alert." if every else "No alert fires.")
    if board.silences:
        say("")
        say_table(board.silences, silence_columns(now))
    if unwatched:
        say(unwatched)


@alerts.command(
    "history", epilog=examples("standfast alerts history", "standfast alerts history --limit 200 --json")
)
@click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many.")
@about_a_store
def history_command(wanted: Wanted, *, limit: int) -> None:
    """List what people were told in the last 30 days, the newest first, and what has not reached them."""
    with wanted.store() as backend:
        notices = run_errand(backend.run, alert_history(backend.verbs, limit))
        waiting = run_errand(backend.run, undelivered(backend.verbs))
        now = backend.run(ask_time(backend.verbs)).now
    missing = {notice.id: waiting[notice.id] for notice in notices if notice.id in waiting}
    if wanted.as_json:
        say_json([notice_fields(notice, missing) for notice in notices])
    elif notices:
        say_table(notices, notice_columns(now, missing))
    else:
        say("Nobody was told of anything.")


@alerts.command("rules", epilog=examples("standfast alerts rules", "standfast alerts rules --json"))
@about_a_store
def rules_command(wanted: Wanted) -> None:
    """List the rules that count, as workers declare them and as they were changed and added since."""
    with wanted.store() as backend:
        board = run_errand(backend.run, read_board(backend.verbs))
        unwatched = _why_nobody_looks(backend, board, backend.run(ask_time(backend.verbs)).now)
    rules = counting_rules(board)
    if wanted.as_json:
        say_json(
            [
                rule_fields(rule, changed=rule.name in board.changed, added=rule.name in board.additions)
                for rule in rules
            ]
        )
    elif rules:
        say_table(rules, [*rule_columns(board), *waiting_columns()])
        if unwatched:
            say(unwatched)
    else:
        say(f"{NOT_TOLD[0].upper()}{NOT_TOLD[1:]}.")


def _why_nobody_looks(backend: Backend, board: Board, now: datetime) -> str | None:
    """Return why nobody looks for trouble; None where somebody does."""
    workers = backend.run(backend.verbs.workers())
    if not any(worker.is_live and not worker.info.is_courier for worker in workers):
        return NO_WORKER
    return None if board.is_said(now) else NO_RULES
