"""`holdfast workers`: who is there to run jobs, what they do, and having them replaced or drained."""

import click

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.options import examples
from holdfast.cli.output import say, say_json, say_table
from holdfast.cli.workers_drain import drain
from holdfast.cli.workers_dump import dump
from holdfast.cli.workers_recycle import recycle
from holdfast.cli.workerview import worker_columns, worker_fields
from holdfast.clock import SystemClock
from holdfast.watch.obstacle import START_A_WORKER


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "holdfast workers",
        "holdfast workers --json",
        "holdfast workers dump 1f8a90c2",
        "holdfast workers recycle --all",
        "holdfast workers drain 1f8a90c2",
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


@workers.command("list", epilog=examples("holdfast workers list", "holdfast workers list --json"))
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
