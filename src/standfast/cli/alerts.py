"""`standfast alerts`: what is wrong, who is told of it, and what people say about that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import click
from msgspec.structs import replace
from rich.text import Text

from standfast.admin.alerts import (
    AlertRow,
    AlertsAsked,
    HistoryAsked,
    NoticeRow,
    SilenceAsked,
    SilenceSeen,
    acknowledge_alert,
    list_alerts,
    show_history,
    silence_alerts,
    unacknowledge_alert,
    unsilence_alerts,
)
from standfast.admin.fields import WithId
from standfast.cli.alert_rules import NO_RULES, NO_WORKER, add_command, remove_command, rules_command, set_command
from standfast.cli.connection import (
    AppTarget,
    StoreOptions,
    app_dir_option,
    check_target,
    examples,
    find_target,
    store_options,
)
from standfast.cli.exit_codes import ExitCode, say_failed
from standfast.cli.inputs import as_span_with_unit
from standfast.cli.output import Column, answer, cut, say, say_json, say_list, say_table
from standfast.errors import ConfigurationError, DeliveryError
from standfast.model.alerts import AlertState, Check, Held, Severity
from standfast.model.clock import SystemClock
from standfast.model.display import dated, moment, one_line, short_id
from standfast.model.incidents import Trouble
from standfast.model.records import Kind
from standfast.model.suggestions import closest_name
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, AlertSettings
from standfast.observe.alerts.alert_settings import NO_CHANNEL, AlertDeclarations
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import counting_rules, read_board
from standfast.observe.alerts.channel import Channel
from standfast.observe.alerts.delivery import refuse_unusable, send, trial_notice
from standfast.observe.alerts.observations import OTHERS
from standfast.observe.catalogue import read_catalogue
from standfast.stores.backend import Backend
from standfast.stores.verb import run_procedure

_UNTOLD = frozenset({Check.KEEP_ALIVE, Check.NOT_DURABLE, Check.DISK_FULL})
"""What is about hosts, places and settings, whose names are in no store."""


def _subject_doubt(backend: Backend, rule: str | None, subject: str) -> str | None:
    """Return why a silence may cover nothing: nothing has the name that it is about. None where something has."""
    board = run_procedure(backend.run, read_board(backend.verbs))
    checks = {each.name: each.check for each in (*DEFAULT_RULES, *counting_rules(board))}
    known = set(_names(backend, board))
    if subject in known or (rule is not None and checks.get(rule) in _UNTOLD):
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
    asked = SilenceAsked(until=f"{length.total_seconds():f}s", rule=rule, subject=subject, why=why)
    with wanted.admin() as admin:
        made = admin.run(silence_alerts, asked)
        doubt = None if subject is None else _subject_doubt(admin.backend, rule, subject)
        now = admin.run(list_alerts).now
    if doubt is not None:
        say_failed(f"warning: {doubt}")
    about = f"{one_line(rule or 'anything')}{'' if subject is None else f' about {one_line(subject)}'}"
    answer(wanted, made, f"Nobody is told of {about} until {dated(made.until, now)}: silence {made.id}.")


@click.command(epilog=examples("standfast alerts unsilence 3f2a9c01d2e4"))
@click.argument("silence_id", metavar="ID")
@store_options
def unsilence(wanted: StoreOptions, silence_id: str) -> None:
    """End a silence now.

    ID is that of `standfast alerts list`, or the end of it.
    """
    ended = wanted.run(unsilence_alerts, WithId(id=silence_id))
    answer(wanted, ended, f"Silence {one_line(ended.id)} has ended.")


@click.command(epilog=examples("standfast alerts ack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@store_options
def ack(wanted: StoreOptions, alert_id: str) -> None:
    """Say that you know of an alert: it is not told again while it lasts.

    ID is that of `standfast alerts list`, or the end of it.
    """
    alert = wanted.run(acknowledge_alert, WithId(id=alert_id))
    who = one_line(alert.acknowledged_by or "")
    answer(wanted, alert, f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to {who}.")


@click.command(epilog=examples("standfast alerts unack 3c2d1e0f"))
@click.argument("alert_id", metavar="ID")
@store_options
def unack(wanted: StoreOptions, alert_id: str) -> None:
    """Take back that somebody knows of an alert: it is told as if nobody had.

    ID is that of `standfast alerts list`, or the end of it.
    """
    alert = wanted.run(unacknowledge_alert, WithId(id=alert_id))
    answer(wanted, alert, f"Alert {one_line(short_id(alert.id))} of {one_line(alert.rule)} is known to nobody.")


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


# The group, and the lists.


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


for _command in (silence, unsilence, ack, unack, rules_command, set_command, add_command, remove_command, test):
    alerts.add_command(_command)


@alerts.command(
    "list", epilog=examples("standfast alerts list", "standfast alerts list --all", "standfast alerts list --json")
)
@click.option("--all", "every", is_flag=True, help="Also those that are pending, or resolved and not told yet.")
@store_options
def list_command(wanted: StoreOptions, *, every: bool) -> None:
    """List the alerts that fire, and the silences."""
    seen = wanted.run(list_alerts, AlertsAsked(all_states=every))
    shown = tuple(alert for alert in seen.alerts if every or alert.state is AlertState.FIRING)
    if wanted.as_json:
        say_json(replace(seen, alerts=shown))
        return
    if shown:
        say_table(shown, _alert_columns(seen.now))
    else:
        say("No alert." if every else "No alert fires.")
    if seen.silences:
        say("")
        say_table(seen.silences, _silence_columns(seen.now))
    if not seen.watched:
        say(NO_RULES if seen.living else NO_WORKER)


@alerts.command(
    "history", epilog=examples("standfast alerts history", "standfast alerts history --limit 200 --json")
)
@click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many.")
@store_options
def history_command(wanted: StoreOptions, *, limit: int) -> None:
    """List what people were told in the last 30 days, the newest first, and what has not reached them."""
    seen = wanted.run(show_history, HistoryAsked(limit=limit))
    columns = _notice_columns(seen.now, missing=any(notice.undelivered for notice in seen.rows))
    say_list(wanted, seen.rows, columns, "Nobody was told of anything.")


_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow"}


def _alert_columns(now: datetime) -> list[Column[AlertRow]]:
    return [
        Column("ID", lambda alert: short_id(alert.id)),
        Column("STATE", lambda alert: _state(alert, now), vital=2),
        Column("SEVERITY", lambda alert: Text(alert.severity, style=_STYLES.get(alert.severity, "")), vital=1),
        Column("RULE", lambda alert: cut(alert.rule), vital=3),
        Column("SINCE", lambda alert: dated(alert.since, now)),
        Column("WHAT", lambda alert: cut(alert.says), shrinks=True, vital=4),
    ]


def _state(alert: AlertRow, now: datetime) -> str:
    """Return how an alert stands, what people have said about it, and why they have not heard of it."""
    says = why_untold(alert, now) if alert.state is AlertState.FIRING or alert.silenced else ""
    return f"{alert.state}, {says}" if says else alert.state.value


def why_untold(alert: AlertRow, now: datetime) -> str:
    """Return why people have not heard of an alert that fires, and until when; nothing where they have.

    It is as the last round found: what is over since then is told by the next one.
    """
    lasts = alert.held_until is not None and alert.held_until > now
    until = f" until {moment(alert.held_until, now)}" if alert.held_until is not None and lasts else ""
    if alert.silenced or alert.acknowledged_at is not None:
        says = "silenced" if alert.silenced else "acknowledged"
        return f"{says}{until if alert.held is Held.SILENCE else ''}"
    if not alert.untold:
        return ""
    return f"not told yet: {alert.held}{until}" if lasts else "not told yet: waits for the next round"


def _silence_columns(now: datetime) -> list[Column[SilenceSeen]]:
    return [
        Column("SILENCE", lambda silence: silence.id),
        Column("RULE", lambda silence: cut(silence.rule or "every rule")),
        Column("SUBJECT", lambda silence: cut(silence.subject or "every subject"), shrinks=True),
        Column("UNTIL", lambda silence: dated(silence.until, now)),
        Column("WHY", lambda silence: cut(silence.why), shrinks=True),
        Column("BY", lambda silence: cut(silence.by)),
    ]


def _notice_columns(now: datetime, *, missing: bool) -> list[Column[NoticeRow]]:
    lacking: Column[NoticeRow] = Column("NOT DELIVERED", lambda notice: cut(_missing(notice)), vital=2)
    return [
        Column("AT", lambda notice: dated(notice.at, now)),
        Column("WHAT", lambda notice: notice.kind.value),
        Column("RULE", lambda notice: cut(notice.rule)),
        Column("SAYS", lambda notice: cut(notice.title), shrinks=True, vital=1),
        *([lacking] if missing else []),
        Column("NOTICE", lambda notice: short_id(notice.id), from_width=110),
    ]


def _missing(notice: NoticeRow) -> str:
    """Return through which channels a notice has not arrived: for good, or not yet."""
    return ", ".join(
        f"{each.channel} ({each.state.value if each.final else 'not yet'})" for each in notice.undelivered
    )
