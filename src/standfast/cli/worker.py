"""`standfast worker`, and how its options are read.

What `standfast worker` and `standfast up` can be asked for, read in one place.
"""

from pathlib import Path
from typing import Any, get_args

import click

from standfast.cli.connection import app_dir_option, check_given_url, check_target, debug_option, examples, given
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.inputs import read_token
from standfast.errors import ConfigurationError
from standfast.model.configuration import RULES, UnfitError
from standfast.observe.health.access import check_token, read_networks
from standfast.observe.health.http_server import is_of_this_machine
from standfast.observe.logs.levels import LogFormat, LogLevel, LogOptions
from standfast.worker.options import MetricsOptions, Named, ServedQueues, WorkerOptions, read_queues

_LAST_PORT = 65_535


def _read_queues(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Named | None:
    try:
        return None if value is None else read_queues(value, "`--queues critical=6,mail=3`")
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from None


def _served(named: Named | None, *, strict: bool) -> ServedQueues | None:
    if named is None:
        if strict:
            raise wrong_usage("--strict is about --queues, and none are named; add e.g. `--queues critical,mail`")
        return None
    if not strict:
        return ServedQueues.by_weight(named)
    if any(weight is not None for _, weight in named):
        raise wrong_usage(
            "--strict serves queues in the order given, and weights mean something else; leave out one of the two"
        )
    return ServedQueues(tuple(name for name, _ in named))


def _read_address(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        raise click.BadParameter(f"{value!r} is no port, nor HOST:PORT; write e.g. 9090 or 0.0.0.0:9090")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _check_setting(_ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what the setting of that name does not take: nan would not even reach the child."""
    try:
        if value is not None:
            RULES[parameter.name or ""].check(value)
    except UnfitError as error:
        raise click.BadParameter(f"{value:g}: {error}") from None
    return value


worker_options = given(
    click.argument("target", metavar="MODULE:APP", callback=check_target),
    click.option("--drain", is_flag=True, help="Stop when nothing is left to do."),
    click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at a time in each process."),
    click.option("--processes", type=click.IntRange(min=1), default=1, metavar="N", help="Child processes."),
    click.option(
        "--queues",
        callback=_read_queues,
        metavar="A=6,B=3",
        help="Only these queues, each with its share of the jobs: by weight, 1 where none is given.",
    ),
    click.option("--strict", is_flag=True, help="Serve --queues in the order given: the first before the others."),
    click.option(
        "--grace",
        type=float,
        callback=_check_setting,
        metavar="SECONDS",
        help="How long a stop waits for running jobs.",
    ),
    click.option(
        "--lease",
        type=float,
        callback=_check_setting,
        metavar="SECONDS",
        help="How long claims stay valid without a beat.",
    ),
    app_dir_option,
    click.option("--url", metavar="URL", callback=check_given_url, help="The store, instead of the app's own."),
    click.option(
        "--log-level",
        type=click.Choice(get_args(LogLevel)),
        default="info",
        help="What is told on stderr: debug tells every step of every job.",
    ),
    click.option("--verbose", "-v", is_flag=True, help="The same as --log-level debug."),
    click.option(
        "--log-format",
        type=click.Choice(get_args(LogFormat)),
        default="human",
        help="Lines for people, or one JSON object per line.",
    ),
    click.option(
        "--reload", is_flag=True, help="For development: start anew whenever a .py file of --app-dir changes."
    ),
    click.option(
        "--alive-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Touch it every few seconds while a worker is ready: for probes.",
    ),
    click.option(
        "--metrics",
        callback=_read_address,
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus there; on this machine alone where no HOST is given.",
    ),
    click.option(
        "--metrics-token-file",
        "metrics_token",
        callback=read_token,
        metavar="FILE",
        help="A file with the token that who asks for metrics has to send.",
    ),
    click.option(
        "--metrics-allow",
        multiple=True,
        metavar="CIDR",
        help="Who may ask for metrics without a token; may be given several times.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Tell nothing of jobs and workers on stderr."),
    debug_option,
)
"""The options of a command that runs workers; it hands them to `read_options`."""


def read_options(
    *,
    queues: Named | None,
    strict: bool,
    log_level: LogLevel,
    verbose: bool,
    log_format: LogFormat,
    quiet: bool,
    metrics: tuple[str, int] | None,
    metrics_token: str | None,
    metrics_allow: tuple[str, ...],
    **given: Any,
) -> WorkerOptions:
    """Return what was asked for. Raises click.UsageError where it contradicts itself."""
    logs = LogOptions("debug" if verbose else log_level, log_format, quiet)
    if given["drain"] and given["reload"]:
        raise wrong_usage(
            "--drain ends with the last job, and --reload waits for changes: leave out one of the two"
        )
    served = _metrics(metrics, metrics_token, metrics_allow)
    return WorkerOptions(queues=_served(queues, strict=strict), logs=logs, metrics=served, **given)


def _metrics(address: tuple[str, int] | None, token: str | None, allow: tuple[str, ...]) -> MetricsOptions | None:
    """Return where metrics are served, and to whom: guarded as `standfast health` is."""
    if address is None:
        if token is not None or allow:
            raise wrong_usage(
                "--metrics-token-file and --metrics-allow are about --metrics: add e.g. `--metrics 9090`"
            )
        return None
    host, port = address
    if token is not None:
        check_token(token)
    read_networks(allow)
    if not (token or allow) and not is_of_this_machine(host, port):
        raise wrong_usage(
            f"--metrics on {host} is reached from other machines: add --metrics-token-file, or --metrics-allow for"
            " those who may ask"
        )
    return MetricsOptions(host, port, token, allow)


# `standfast worker`: hands what is asked for over to the supervisor.


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
