"""`holdfast workers`: who is there to run jobs, and whether they still give signs of life."""

import click

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.options import examples
from holdfast.cli.output import say, say_json, say_table
from holdfast.cli.workerview import worker_columns, worker_fields
from holdfast.clock import SystemClock
from holdfast.watch.obstacle import START_A_WORKER


@click.command(epilog=examples("holdfast workers", "holdfast workers --json"))
@about_a_store
def workers(wanted: Wanted) -> None:
    """List the registered workers, oldest first."""
    with wanted.store() as backend:
        found = backend.run(backend.verbs.workers())
    if wanted.as_json:
        say_json(worker_fields(found))
    elif not found:
        say(f"No worker is registered; {START_A_WORKER}.")
    else:
        say_table(found, worker_columns(SystemClock().now()))
