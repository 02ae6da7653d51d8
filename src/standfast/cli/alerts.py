"""The names that a silence may be about, as far as the store tells: one that nothing has is a slip, as a rule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import click
from rich.text import Text

from standfast.cli.alert_rules import (
    add_command,
    alert_columns,
    alerts_fields,
    notice_columns,
    notice_fields,
    remove_command,
    rule_columns,
    rule_fields,
    set_command,
    silence_columns,
    waiting_columns,
)
from standfast.cli.connection import (
    AppTarget,
    StoreOptions,
    app_dir_option,
    check_target,
    examples,
    find_target,
    person,
    store_options,
)
from standfast.cli.exit_codes import ExitCode, say_failed
from standfast.cli.inputs import as_span_with_unit
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.errors import ConfigurationError, DeliveryError
from standfast.model.alerts import AlertRule, AlertState, Check
from standfast.model.clock import SystemClock
from standfast.model.display import dated, one_line, short_id
from standfast.model.incidents import Trouble
from standfast.model.records import Kind
from standfast.model.suggestions import closest_name
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, AlertSettings
from standfast.observe.alerts.alert_settings import NO_CHANNEL, AlertDeclarations
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import (
    NOT_TOLD,
    acknowledge,
    add_silence,
    alert_history,
    counting_rules,
    end_silence,
    read_board,
    rule_named,
    unacknowledge,
)
from standfast.observe.alerts.channel import Channel
from standfast.observe.alerts.delivery import refuse_unusable, send, trial_notice, undelivered
from standfast.observe.alerts.observations import OTHERS
from standfast.observe.catalogue import read_catalogue
from standfast.stores.backend import Backend
from standfast.stores.contract import ask_time
from standfast.stores.verb import run_procedure

_UNTOLD = frozenset({Check.KEEP_ALIVE, Check.NOT_DURABLE, Check.DISK_FULL})
"""What is about hosts, places and settings, whose names are in no store."""


def subject_doubt(backend: Backend, board: Board, rule: AlertRule | None, subject: str) -> str | None:
    """Return why a silence may cover nothing: nothing has the name that it is about. None where something has."""
    if rule is not None and rule.check in _UNTOLD:
        return None
    known = set(_names(backend, board))
    if subject in known:
        return None
    meant = closest_name(subject, known)
    slip = "" if meant is None else f"; did you mean {one_line(meant)}?"
    return f"no queue, task, schedule, worker, objective or alert is named {subject!r} yet{slip}"


def _names(backend: Backend, board: Board) -> Iterator[str]:
    verbs, view = backend.verbs, run_procedure(backend.run, read_catalogue(backend.verbs))
    yield from (alert.subject for alert in board.alerts)
    yield from (missed.info.id for missed in board.missed)
    yield from (known.task.name for known in view.tasks)
    yield from (queue.name for queue in view.queues)
    yield from (queue.name for queue in backend.run(verbs.queues()))
    yield from (objective.name for objective in view.objectives)
    yield from (schedule.name for schedule in backend.run(verbs.records(Kind.SCHEDULE)))
    yield from (worker.info.id for worker in backend.run(verbs.workers()))
    yield from (*Trouble, "store", "number", "age", OTHERS)


# `standfast alerts silence`, `unsilence`, `ack` and `unack`: what people say about alerts.


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
@store_options
def silence(wanted: StoreOptions, rule: str | None, *, subject: str | None, length: timedelta, why: str) -> None:
    """Tell nobody of a rule, of a subject or of both for a while, 30 days at most.

    What it covers is still looked at and listed. What still fires at the end is told then.
    """
    with wanted.store() as backend:
        board = run_procedure(backend.run, read_board(backend.verbs))
        named = None if rule is None else _rule(rule, board)
        made = run_procedure(backend.run, add_silence(backend.verbs, rule, subject, length, why=why, by=person()))
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
@store_options
def unsilence(wanted: StoreOptions, silence_id: str) -> None:
    """End a silence now.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        ended = run_procedure(backend.run, end_silence(backend.verbs, silence_id))
    if wanted.as_json:
        say_json(ended)
    else:
        say(f"Silence {one_line(ended.id)} has ended.")


@click.command(epilog=examples("standfast alerts ack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@store_options
def ack(wanted: StoreOptions, alert_id: str) -> None:
    """Say that you know of an alert: it is not told again while it lasts.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        alert = run_procedure(backend.run, acknowledge(backend.verbs, alert_id, person()))
    if wanted.as_json:
        say_json(alert)
    else:
        who = one_line(alert.acknowledged_by or "")
        say(f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to {who}.")


@click.command(epilog=examples("standfast alerts unack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@store_options
def unack(wanted: StoreOptions, alert_id: str) -> None:
    """Take back that somebody knows of an alert: it is told as if nobody had.

    ID is that of `standfast alerts list`, or the end of it.
    """
    with wanted.store() as backend:
        alert = run_procedure(backend.run, unacknowledge(backend.verbs, alert_id))
    if wanted.as_json:
        say_json(alert)
    else:
        say(f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to nobody.")


# `standfast alerts test`: does it arrive? Sends a test through each channel, from here, and tells if it went.


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of the test of a channel: why it failed, if it did."""

    channel: str
    kind: str
    why: str | None


@click.command(
    epilog=examples(
        "standfast alerts test myproject.jobs:app",
        "standfast alerts test ops myproject.jobs:app",
        "standfast alerts test --json",
    )
)
@click.argument("words", metavar="[CHANNEL]... [MODULE:APP]", nargs=-1)
@app_dir_option
@click.pass_context
@store_options
def test(wanted: StoreOptions, ctx: click.Context, *, words: tuple[str, ...], app_dir: str) -> None:
    """Send a test through every channel, or through those named.

    They are those of the settings file, and with MODULE:APP those of its code, too. The exit code is 0 if all could
    be sent, else 1. Nothing is written into the store.
    """
    meant = find_target(wanted, _target(ctx, words), app_dir)
    watching = _watching(meant, [word for word in words if ":" not in word])
    refuse_unusable(watching.channels)
    tried = [_try(channel, watching, meant.name) for channel in watching.channels]
    if wanted.as_json:
        say_json([{"channel": t.channel, "kind": t.kind, "ok": t.why is None, "why": t.why} for t in tried])
    else:
        say_table(
            tried,
            [
                Column("CHANNEL", lambda each: cut(each.channel)),
                Column("KIND", lambda each: each.kind),
                Column("", _told, shrinks=True),
            ],
        )
    ctx.exit(ExitCode.OK if all(each.why is None for each in tried) else ExitCode.FAILED)


def _target(ctx: click.Context, words: Sequence[str]) -> str | None:
    targets = [word for word in words if ":" in word]
    if len(targets) > 1:
        raise click.UsageError(f"two apps are named, {targets[0]} and {targets[1]}: name one", ctx)
    return check_target(ctx, ctx.command.params[0], targets[0]) if targets else None


def _watching(meant: AppTarget, names: Sequence[str]) -> AlertSettings:
    """Return the channels of these names, or all, and what else it takes to send."""
    declared = AlertDeclarations(meant.loaded.sections)
    if names:
        return declared.through(names) if meant.app is None else meant.app.watching_through(names)
    watching = declared.all if meant.app is None else meant.app.watching
    if not watching.channels:
        raise ConfigurationError(NO_CHANNEL)
    return watching


def _try(channel: Channel, watching: AlertSettings, app: str) -> Tried:
    kind = str(channel.__struct_config__.tag)
    try:
        send(trial_notice(SystemClock().now()), channel, watching.dashboard_url, app)
    except DeliveryError as error:
        return Tried(channel.name, kind, str(error))
    return Tried(channel.name, kind, None)


def _told(tried: Tried) -> Text:
    return Text("sent", style="green") if tried.why is None else Text(f"not sent: {tried.why}", style="bold red")


# `standfast alerts`: what is wrong now, and who is told of it. What changes something is beside it.

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
@store_options
def list_command(wanted: StoreOptions, *, every: bool) -> None:
    """List the alerts that fire, and the silences."""
    with wanted.store() as backend:
        board = run_procedure(backend.run, read_board(backend.verbs))
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
@store_options
def history_command(wanted: StoreOptions, *, limit: int) -> None:
    """List what people were told in the last 30 days, the newest first, and what has not reached them."""
    with wanted.store() as backend:
        notices = run_procedure(backend.run, alert_history(backend.verbs, limit))
        waiting = run_procedure(backend.run, undelivered(backend.verbs))
        now = backend.run(ask_time(backend.verbs)).now
    missing = {notice.id: waiting[notice.id] for notice in notices if notice.id in waiting}
    if wanted.as_json:
        say_json([notice_fields(notice, missing) for notice in notices])
    elif notices:
        say_table(notices, notice_columns(now, missing))
    else:
        say("Nobody was told of anything.")


@alerts.command("rules", epilog=examples("standfast alerts rules", "standfast alerts rules --json"))
@store_options
def rules_command(wanted: StoreOptions) -> None:
    """List the rules that count, as workers declare them and as they were changed and added since."""
    with wanted.store() as backend:
        board = run_procedure(backend.run, read_board(backend.verbs))
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
