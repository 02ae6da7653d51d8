"""`standfast report`: what is wrong now, what ran, what failed and why: as text, page or workbook, or sent."""

from collections.abc import Callable, Mapping
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Any

import click
import msgspec

from standfast.admin.objectives import objective_seen
from standfast.admin.reports import gather_report
from standfast.cli.connection import (
    AppTarget,
    StoreOptions,
    app_dir_option,
    examples,
    existing_store,
    find_target,
    store_options,
    target_argument,
)
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.output import answer, say_json
from standfast.cli.stats import read_since
from standfast.errors import ConfigurationError
from standfast.observe.reports.html_page import as_page
from standfast.observe.reports.plain_text import as_text
from standfast.observe.reports.report import Report
from standfast.observe.reports.workbook import as_workbook
from standfast.schedules.zones import find_zone
from standfast.stores.verb import run_procedure

_FORMATS: Mapping[str, Callable[[Report, tzinfo | None], bytes]] = {
    "text": lambda report, zone: as_text(report, zone).encode(errors="replace"),
    "html": lambda report, zone: as_page(report, zone).encode(errors="replace"),
    "xlsx": as_workbook,
}
_BY_SUFFIX = {"": "text", ".txt": "text", ".html": "html", ".htm": "html", ".xlsx": "xlsx"}


@click.command(
    epilog=examples(
        "standfast report",
        "standfast report --since 7d --output week.html",
        "standfast report --since 24h --format xlsx --output day.xlsx",
        "standfast report --channel ops myproject.jobs:app",
    )
)
@target_argument
@click.option("--since", metavar="SPAN", default="24h", help="How far back: 1h, 24h, 7d; 30d at most.")
@click.option(
    "--format",
    "wanted_format",
    type=click.Choice(tuple(_FORMATS)),
    help="How it is written.  [default: as the name of the file says, else text]",
)
@click.option(
    "--output", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it there."
)
@click.option("--channel", metavar="NAME", help="Send it now, through this channel of MODULE:APP.")
@click.option(
    "--tz", metavar="ZONE", help="Tell times by the clock of this zone: Asia/Taipei.  [default: this machine's]"
)
@app_dir_option
@store_options
def report(
    wanted: StoreOptions,
    /,
    *,
    target: str | None,
    since: str,
    wanted_format: str | None,
    file: Path | None,
    channel: str | None,
    tz: str | None,
    app_dir: str,
) -> None:
    """Tell what is wrong now, what ran, what failed and why.

    Wrong now are alerts that fire, queues that wait for long or for a worker that is not there, and that no worker
    lives. Beside it: how objectives stand, incidents, schedules that missed their time, and alerts that were told.
    What Standfast runs to tell people counts as no job. No arguments of jobs are in it.
    """
    back, zone = read_since(since), None if tz is None else find_zone(tz)
    form = wanted_format or ("text" if file is None else _form_of(file))
    if wanted.as_json and wanted_format is not None and file is None and channel is None:
        raise wrong_usage("--json is a form of its own: leave --format out, or write the other to --output FILE")
    if form == "xlsx" and file is None:
        raise wrong_usage("a workbook needs a file: give --output FILE.xlsx")
    if channel is not None and (target is None or file is not None or wanted_format is not None):
        raise wrong_usage("--channel needs MODULE:APP, which has the channel, and no --format or --output")
    meant = find_target(wanted, target, app_dir)
    with existing_store(meant.loaded.settings) as backend:
        made = run_procedure(backend.run, gather_report(backend.verbs, back))
    if channel is not None:
        _send(wanted, meant, made, zone, channel)
    elif file is not None:
        _write(file, _FORMATS[form](made, zone))
        answer(wanted, {"written": str(file), "format": form}, f"Written to {file}.")
    elif wanted.as_json:
        say_json({**_fields(made), "standings": [objective_seen(each) for each in made.standings]})
    else:
        click.echo(_FORMATS[form](made, zone), nl=False)


def _form_of(file: Path) -> str:
    """Return what the name of a file says that it holds."""
    form = _BY_SUFFIX.get(file.suffix.lower())
    if form is None:
        as_json = f"; or --json without --output, as in --json > {file}" if file.suffix.lower() == ".json" else ""
        raise wrong_usage(
            f"--output: no report is written as {file.suffix}; let the name end in .txt, .html or .xlsx, or say"
            f" which with --format{as_json}"
        )
    return form


def _fields(value: Any) -> Any:
    """Return what JSON has of a report: spans are seconds."""
    if isinstance(value, msgspec.Struct):
        return {name: _fields(inside) for name, inside in msgspec.structs.asdict(value).items()}
    if isinstance(value, tuple):
        return [_fields(inside) for inside in value]
    return value.total_seconds() if isinstance(value, timedelta) else value


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"--output: {file} cannot be written: {error.strerror}") from None


def _send(wanted: StoreOptions, meant: AppTarget, made: Report, zone: tzinfo | None, name: str) -> None:
    from standfast.admin.reports import notice_of  # noqa: PLC0415 - likewise
    from standfast.model.ids import new_job_id  # noqa: PLC0415 - likewise
    from standfast.observe.alerts.delivery import send  # noqa: PLC0415 - only who sends needs it

    assert meant.app is not None
    watching = meant.app.watching_through([name])
    [channel] = watching.channels
    notice = notice_of(made, zone, new_job_id(), meant.loaded.settings.namespace)
    send(notice, channel, watching.dashboard_url, meant.name)
    answer(wanted, {"sent": notice.id, "channel": name}, f"Sent through {name}.")
