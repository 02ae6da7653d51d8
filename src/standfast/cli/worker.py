"""`standfast worker`: hands what is asked for over to the supervisor."""

from typing import Any

import click

from standfast.cli.options import examples
from standfast.cli.worker_options import read_options, worker_options


@click.command(
    epilog=examples(
        "standfast worker myproject.jobs:app",
        "standfast worker myproject.jobs:app --processes 4 --concurrency 50",
        "standfast worker myproject.jobs:app --queues critical=6,mail=3,reports=1",
        "standfast worker myproject.jobs:app --queues critical,mail --strict",
        "standfast worker myproject.jobs:app --drain",
        "standfast worker myproject.jobs:app --reload",
    )
)
@worker_options
@click.pass_context
def worker(ctx: click.Context, /, **given: Any) -> None:
    """Run jobs of an app until told to stop.

    MODULE:APP names the app: the module to import and the Standfast object in it. SIGTERM stops it, SIGHUP replaces
    its processes by others that import the app anew, without a gap.
    """
    # The other commands must not pay for importing all that a worker needs.
    from standfast.supervisor.main import supervise  # noqa: PLC0415

    ctx.exit(supervise(read_options(**given)))
