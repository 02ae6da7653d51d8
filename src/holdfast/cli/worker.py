"""`holdfast worker`: reads what is asked for and hands over to the supervisor."""

import re

import click

from holdfast.cli.connection import debug_option
from holdfast.cli.helptext import examples
from holdfast.supervisor.options import WorkerOptions

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _check_target(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _TARGET.fullmatch(value):
        raise click.BadParameter(f"'{value}' is not MODULE:APP, as in `holdfast worker myproject.jobs:app`")
    return value


def _split_queues(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if not all(names):
        raise click.BadParameter(f"'{value}' has an empty name in it; write them as in `--queues critical,mail`")
    if "=" in value:
        raise click.BadParameter(
            f"weights as in '{value}' come in a later release; name the queues in order of importance,"
            " as in `--queues critical,mail`"
        )
    return names


@click.command(
    epilog=examples(
        "holdfast worker myproject.jobs:app",
        "holdfast worker myproject.jobs:app --processes 4 --concurrency 50",
        "holdfast worker myproject.jobs:app --queues critical,mail",
        "holdfast worker myproject.jobs:app --drain",
    )
)
@click.argument("target", metavar="MODULE:APP", callback=_check_target)
@click.option("--drain", is_flag=True, help="Stop when nothing is left to do.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at a time in each process.")
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Child processes."
)
@click.option(
    "--queues", callback=_split_queues, metavar="A,B", help="Only these queues, the first before the others."
)
@click.option(
    "--grace", type=click.FloatRange(min=0), metavar="SECONDS", help="How long a stop waits for running jobs."
)
@click.option(
    "--lease",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long claims stay valid without a beat.",
)
@click.option(
    "--app-dir",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    show_default=True,
    help="Where MODULE is looked for first.",
)
@click.option("--url", metavar="URL", help="The store, instead of the app's own.")
@click.option("--quiet", "-q", is_flag=True, help="Do not tell of each job on stderr.")
@debug_option
@click.pass_context
def worker(
    ctx: click.Context,
    *,
    target: str,
    drain: bool,
    concurrency: int | None,
    processes: int,
    queues: tuple[str, ...] | None,
    grace: float | None,
    lease: float | None,
    app_dir: str,
    url: str | None,
    quiet: bool,
) -> None:
    """Run jobs of an app until told to stop.

    MODULE:APP names the app: the module to import and the Holdfast object in it.
    """
    # The other commands must not pay for importing all that a worker needs.
    from holdfast.supervisor.main import supervise  # noqa: PLC0415

    options = WorkerOptions(
        target=target,
        drain=drain,
        processes=processes,
        concurrency=concurrency,
        queues=queues,
        grace=grace,
        lease=lease,
        app_dir=app_dir,
        url=url,
        console=not quiet,
    )
    ctx.exit(supervise(options))
