"""`standfast incidents`: what went wrong with workers; the list. Each other command has a file of its own."""

import click

from standfast.cli.casebook import Selection, check_end, ends_named_by, read_casebook, read_since, with_tasks
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.incidents_export import export
from standfast.cli.incidents_forget import forget
from standfast.cli.incidents_show import show
from standfast.cli.incidentview import TroubleWords, incident_columns, incident_fields
from standfast.cli.options import examples, tz_option
from standfast.cli.output import say, say_json, say_table
from standfast.clock import SystemClock
from standfast.core.incident import Trouble
from standfast.words import counted


@click.group(
    epilog=examples(
        "standfast incidents list --since 12h",
        "standfast incidents show 3c2d1e0f",
        "standfast incidents export 3c2d1e0f --to incident.zip",
        "standfast incidents forget --before 7d",
    )
)
def incidents() -> None:
    """Read what went wrong with workers, and the evidence."""


for _command in (show, export, forget):
    incidents.add_command(_command)


@incidents.command(
    "list",
    epilog=examples(
        "standfast incidents list",
        "standfast incidents list --since 12h --trouble crash --trouble hang",
        "standfast incidents list --task send_email --json",
    ),
)
@click.option(
    "--trouble",
    "troubles",
    multiple=True,
    type=TroubleWords(),
    help="Only this kind; may be given several times.",
)
@click.option("--since", metavar="TIME", help="Only those that happened after this: 12h, 2d, or a date.")
@click.option("--job", metavar="ID", callback=check_end, help="Only those in which this job was involved.")
@click.option("--task", metavar="NAME", help="Only those in which a job of this task was involved.")
@click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many.")
@tz_option
@about_a_store
def list_command(
    wanted: Wanted,
    /,
    *,
    troubles: tuple[Trouble, ...],
    since: str | None,
    job: str | None,
    task: str | None,
    limit: int,
    tz: str | None,
) -> None:
    """List incidents, those that happened last first."""
    after = read_since("--since", since, tz)
    with wanted.store() as backend:
        kept = read_casebook(backend)
        unnamed = job is not None and any(incident.more_jobs for incident in kept)
        ends = ends_named_by(wanted, backend, job) if job is not None and unnamed else frozenset()
        which = Selection(troubles, after, job, task, ends)
        found = [incident for incident in (kept if task is None else with_tasks(backend, kept)) if which(incident)]
        shown = with_tasks(backend, found[:limit])
    if wanted.as_json:
        say_json([incident_fields(incident) for incident in shown])
    elif not found:
        say("No incident matches." if kept else "No incidents.")
    else:
        say_table(shown, incident_columns(SystemClock().now()))
        if len(found) > limit:
            say(f"\nThe last {counted(limit, 'incident')} of {len(found):,}; --limit shows more")
