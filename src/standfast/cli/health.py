"""`standfast health`: the health of an app or a store on a port of its own, or told once, for probes."""

import signal
import threading
from queue import SimpleQueue

import click
from rich.text import Text

from standfast.cli.connection import (
    LazyStore,
    StoreOptions,
    app_dir_option,
    examples,
    find_target,
    store_options,
    target_argument,
)
from standfast.cli.exit_codes import ExitCode, wrong_usage
from standfast.cli.inputs import token_file_option
from standfast.cli.output import Column, cut, say, say_heading, say_json, say_table
from standfast.model.display import span
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health
from standfast.observe.health.http_server import HealthServer, is_of_this_machine
from standfast.observe.health.status import Check, QueueHealth, Report, assess


@click.command(
    epilog=examples(
        "standfast health myproject.jobs:app",
        "standfast health --url redis://queue.example:6379/0 --port 8090",
        "standfast health myproject.jobs:app --host 0.0.0.0 --token-file /run/secrets/health",
        "standfast health myproject.jobs:app --host 0.0.0.0 --allow 10.0.0.0/8 --allow 127.0.0.1",
        "standfast health --once --json",
    )
)
@target_argument
@app_dir_option
@click.option("--once", is_flag=True, help="Tell it once, and end: 0 if ready, 1 if not, 3 without the store.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8090, help="On which port; 0 for any that is free.")
@token_file_option
@click.option(
    "--allow", multiple=True, metavar="CIDR", help="Who may ask without a token; may be given several times."
)
@click.pass_context
@store_options
def health(
    wanted: StoreOptions,
    ctx: click.Context,
    /,
    *,
    target: str | None,
    app_dir: str,
    once: bool,
    host: str,
    port: int,
    token: str | None,
    allow: tuple[str, ...],
) -> None:
    """Serve /livez, /readyz and /healthz, or tell once how things are.

    Only this machine may ask, unless there is a token or an --allow: then who is in a network that is allowed, and
    anybody else with the token. A list that is given replaces this machine, too.
    """
    store = LazyStore(find_target(wanted, target, app_dir).loaded)
    try:
        asked = Health(store, token=token, networks=allow or (() if token else LOOPBACK))
        if once:
            ctx.exit(_told_once(asked, as_json=wanted.as_json))
        if not (token or allow) and not is_of_this_machine(host, port):
            raise wrong_usage(
                f"--host {host} is reached from other machines: add --token-file, or --allow for those who may ask"
            )
        _serve(asked, host, port)
    finally:
        store.close()


def _serve(asked: Health, host: str, port: int) -> None:
    with HealthServer(asked, host, port) as server:
        told = SimpleQueue[None]()  # a signal handler must not start a thread: it may interrupt the start of one

        def stop() -> None:
            told.get()
            server.shutdown()

        threading.Thread(target=stop, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: told.put(None))
        click.echo(f"health is told at {server.url}/healthz")
        server.serve_forever()


def _told_once(asked: Health, *, as_json: bool) -> ExitCode:
    report = assess(asked.look())
    if as_json:
        say_json(report.fields())
    else:
        _tell(report)
    if report.at is None:
        return ExitCode.STORE
    return ExitCode.OK if report.ok else ExitCode.FAILED


def _tell(report: Report) -> None:
    say_table(report.checks, _CHECK_COLUMNS)
    if report.queues:
        say_heading("Queues with due jobs")
        say_table(list(report.queues.items()), _QUEUE_COLUMNS)
    beat = "no beat is known" if report.last_beat is None else f"the last beat {span(report.last_beat)} ago"
    style, word = ("green", "All is well") if report.ok else ("bold red", "Not ready")
    if report.ok and report.warns:
        style, word = "yellow", "Ready, with a warning"
    told = f"; {beat}, lag {span(report.lag)}" if report.at else ""
    say(Text(f"\n{word}{told}.", style=style))


def _mark(check: Check) -> Text:
    if check.warns:
        return Text("warning", style="yellow")
    return Text("ok", style="green") if check.ok else Text("failing", style="bold red")


_CHECK_COLUMNS: list[Column[Check]] = [
    Column("CHECK", lambda check: check.name),
    Column("", _mark),
    Column("WHAT IS FOUND", lambda check: check.says, shrinks=True),
]
_QUEUE_COLUMNS: list[Column[tuple[str, QueueHealth]]] = [
    Column("QUEUE", lambda row: cut(row[0])),
    Column("OLDEST WAITS", lambda row: span(row[1].age), justify="right"),
    Column("", lambda row: row[1].held_up or ""),
]
