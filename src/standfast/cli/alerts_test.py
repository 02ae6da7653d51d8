"""`standfast alerts test`: does it arrive? Sends a test through each channel, from here, and tells if it went."""

from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.text import Text

from standfast.alerts.channel import Channel
from standfast.alerts.declaring import NO_CHANNEL, DeclaredWatching
from standfast.alerts.delivery import refuse_unusable, send, trial_notice
from standfast.alerts.watching import Watching
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import ExitCode
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say_json, say_table
from standfast.cli.target import Meant, app_dir_option, check_target, find_meant
from standfast.clock import SystemClock
from standfast.errors import ConfigurationError, DeliveryError


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
@about_a_store
def test(wanted: Wanted, ctx: click.Context, *, words: tuple[str, ...], app_dir: str) -> None:
    """Send a test through every channel, or through those named.

    They are those of the settings file, and with MODULE:APP those of its code, too. The exit code is 0 if all could
    be sent, else 1. Nothing is written into the store.
    """
    meant = find_meant(wanted, _target(ctx, words), app_dir)
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


def _watching(meant: Meant, names: Sequence[str]) -> Watching:
    """Return the channels of these names, or all, and what else it takes to send."""
    declared = DeclaredWatching(meant.loaded.sections)
    if names:
        return declared.through(names) if meant.app is None else meant.app.watching_through(names)
    watching = declared.all if meant.app is None else meant.app.watching
    if not watching.channels:
        raise ConfigurationError(NO_CHANNEL)
    return watching


def _try(channel: Channel, watching: Watching, app: str) -> Tried:
    kind = str(channel.__struct_config__.tag)
    try:
        send(trial_notice(SystemClock().now()), channel, watching.dashboard_url, app)
    except DeliveryError as error:
        return Tried(channel.name, kind, str(error))
    return Tried(channel.name, kind, None)


def _told(tried: Tried) -> Text:
    return Text("sent", style="green") if tried.why is None else Text(f"not sent: {tried.why}", style="bold red")
