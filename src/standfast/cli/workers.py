"""`standfast workers`: who is there to run jobs, what they do, and having them replaced or drained."""

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json, say_table
from standfast.cli.workers_drain import drain
from standfast.cli.workers_dump import dump
from standfast.cli.workers_recycle import recycle
from standfast.cli.workerview import worker_columns, worker_fields
from standfast.clock import SystemClock
from standfast.watch.obstacle import START_A_WORKER


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "standfast workers",
        "standfast workers --json",
        "standfast workers dump 1f8a90c2",
        "standfast workers recycle --all",
        "standfast workers drain 1f8a90c2",
    ),
)
@click.pass_context
@about_a_store
def workers(_wanted: Wanted, ctx: click.Context) -> None:
    """List workers, look at one, have them replaced or drained."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


workers.add_command(drain)
workers.add_command(dump)
workers.add_command(recycle)


@workers.command("list", epilog=examples("standfast workers list", "standfast workers list --json"))
@about_a_store
def list_command(wanted: Wanted) -> None:
    """List the registered workers, oldest first."""
    with wanted.store() as backend:
        found = backend.run(backend.verbs.workers())
    if wanted.as_json:
        say_json(worker_fields(found))
    elif not found:
        say(f"No worker is registered; {START_A_WORKER}.")
    else:
        say_table(found, worker_columns(SystemClock().now()))
