"""`holdfast up`: all of an app that runs by itself, in one command, for a machine that boots."""

from typing import Any

import click

from holdfast.cli.options import examples
from holdfast.cli.worker_options import read_options, worker_options


@click.command(
    epilog=examples(
        "holdfast up myproject.jobs:app",
        "holdfast up myproject.jobs:app --processes 4",
        "holdfast up myproject.jobs:app --reload",
    )
)
@worker_options
@click.pass_context
def up(ctx: click.Context, /, **given: Any) -> None:
    """Bring an app to life: its workers, and its schedules with them.

    MODULE:APP names the app, as for `holdfast worker`, whose options it has. It is the one command for systemd, a
    container or a terminal: whatever an app needs to run by itself comes with it.
    """
    # The other commands must not pay for importing all that a worker needs.
    from holdfast.supervisor.main import supervise  # noqa: PLC0415

    ctx.exit(supervise(read_options(**given)))
