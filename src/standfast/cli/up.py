"""`standfast up`: all of an app that runs by itself, in one command, for a machine that boots."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from standfast.cli.connection import examples
from standfast.cli.dashboard import need_the_extra
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.output import say
from standfast.cli.worker import read_options, worker_options
from standfast.dashboard.access.credentials import read_tokens
from standfast.dashboard.serving.sidecar import dashboard_sidecar
from standfast.errors import ConfigurationError
from standfast.worker.options import WorkerOptions


@click.command(
    epilog=examples(
        "standfast up myproject.jobs:app",
        "standfast up myproject.jobs:app --processes 4",
        "standfast up myproject.jobs:app --dashboard-port 9000",
        "standfast up myproject.jobs:app --no-dashboard --reload",
    )
)
@worker_options
@click.option("--dashboard/--no-dashboard", default=None, help="With the dashboard or not.  [default: with]")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="On which port.  [default: 8080, or one that is free]",
)
@click.option(
    "--dashboard-token-file",
    "token_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Who may come to it with a token.",
)
@click.pass_context
def up(
    ctx: click.Context,
    /,
    *,
    dashboard: bool | None,
    dashboard_port: int | None,
    token_file: str | None,
    **given: Any,
) -> None:
    """Bring an app to life: workers, schedules, dashboard.

    MODULE:APP names the app, as for `standfast worker`, whose options it has. It is the one command for systemd, a
    container or a terminal: whatever an app needs to run by itself comes with it. A link to the dashboard is
    printed; only this machine gets in, by it, or with a token in place of it. For more of it, say --no-dashboard
    and start `standfast dashboard` by itself.
    """
    # The other commands must not pay for importing all that a worker needs.
    from standfast.supervisor.main import supervise  # noqa: PLC0415

    about_it = {"--dashboard-port": dashboard_port, "--dashboard-token-file": token_file}
    if dashboard is False and (told := [name for name, value in about_it.items() if value is not None]):
        raise wrong_usage(f"{told[0]} is about the dashboard, and --no-dashboard leaves it out")
    options = read_options(**given)
    wanted = dashboard is not False and not options.drain
    with _shown(options, dashboard_port, token_file, asked=bool(dashboard)) if wanted else nullcontext():
        code = supervise(options)
    ctx.exit(code)


def _shown(
    options: WorkerOptions, port: int | None, token_file: str | None, *, asked: bool
) -> AbstractContextManager[None]:
    """Return the dashboard beside the workers; without what it needs it is left out, unless it was asked for."""
    try:
        need_the_extra()
    except ConfigurationError as error:
        if asked or port is not None or token_file is not None:
            raise
        say(f"Without a dashboard: {error}.")
        return nullcontext()
    arguments = [options.target, "--app-dir", options.app_dir]
    arguments += [] if port is None else ["--port", str(port)]
    if token_file is not None:
        read_tokens(Path(token_file))  # what is wrong with it is told before anything begins
        arguments += ["--token-file", token_file]
    return dashboard_sidecar(arguments, {} if options.url is None else {"STANDFAST_URL": options.url})
