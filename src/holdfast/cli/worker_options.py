"""What `holdfast worker` and `holdfast up` can be asked for, read in one place."""

from pathlib import Path
from typing import Any, get_args

import click

from holdfast.cli.connection import check_given_url, debug_option
from holdfast.cli.failures import wrong_usage
from holdfast.cli.options import given
from holdfast.cli.target import app_dir_option, check_target
from holdfast.errors import ConfigurationError
from holdfast.settings.rules import RULES, UnfitError
from holdfast.supervisor.options import WorkerOptions
from holdfast.watch.options import LogFormat, LogLevel, LogOptions
from holdfast.worker.served import Named, ServedQueues, read_queues


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
    **given: Any,
) -> WorkerOptions:
    """Return what was asked for. Raises click.UsageError where it contradicts itself."""
    logs = LogOptions("debug" if verbose else log_level, log_format, quiet)
    if given["drain"] and given["reload"]:
        raise wrong_usage(
            "--drain ends with the last job, and --reload waits for changes: leave out one of the two"
        )
    return WorkerOptions(queues=_served(queues, strict=strict), logs=logs, **given)
