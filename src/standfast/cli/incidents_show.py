"""`standfast incidents show`: all that is known of one incident, with its evidence."""

from collections.abc import Mapping
from datetime import datetime

import click
from rich.text import Text

from standfast.cli.casebook import find_incident, named, read_casebook, read_jobs
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.incidentview import States, incident_fields, involved_columns, involved_fields, trouble_text
from standfast.cli.options import examples
from standfast.cli.output import say, say_block, say_fields, say_heading, say_json, say_table
from standfast.clock import SystemClock
from standfast.core.incident import Incident
from standfast.errors import IncidentNotFoundError
from standfast.incidents.book import read_evidence
from standfast.store.errand import run_errand
from standfast.words import counted, dated, legible, one_line


@click.command(
    epilog=examples(
        "standfast incidents show 3c2d1e0f",
        "standfast incidents show 3c2d1e0f --part stacks",
        "standfast incidents show 3c2d1e0f --json",
    )
)
@click.argument("incident_id", metavar="ID")
@click.option("--part", metavar="NAME", help="Print this part of the evidence alone, as it is.")
@about_a_store
def show(wanted: Wanted, incident_id: str, part: str | None) -> None:
    """Show all that is known of an incident.

    ID is an incident's id, or its last characters as the list and the errors of jobs show them.
    """
    with wanted.store() as backend:
        incident = find_incident(wanted, backend, read_casebook(backend), incident_id)
        parts = _chosen(run_errand(backend.run, read_evidence(backend.verbs, incident.id)).parts, incident, part)
        jobs = read_jobs(backend, (job.job_id for job in incident.jobs))
    incident = named(incident, jobs)
    states = {job.id: job.state for job in jobs.values()}
    if wanted.as_json:
        involved = involved_fields(incident.jobs, states)
        say_json({**incident_fields(incident), "jobs": involved, "evidence": parts})
    elif part is not None:
        click.echo("\n".join(map(legible, parts[part].splitlines())))
    else:
        _tell(incident, parts, states, SystemClock().now())


def _chosen(parts: Mapping[str, str], incident: Incident, part: str | None) -> Mapping[str, str]:
    if part is None:
        return parts
    if part not in parts:
        names = ", ".join(parts) or "none at all"
        raise IncidentNotFoundError(f"the evidence of incident {incident.id} has no part '{part}'; it has {names}")
    return {part: parts[part]}


def _tell(incident: Incident, parts: Mapping[str, str], states: States, now: datetime) -> None:
    say(Text.assemble(trouble_text(incident.trouble), "  ", (incident.id, "dim")))
    say(one_line(incident.summary))
    say("")
    say_fields(_fields(incident, now))
    if incident.jobs:
        say_heading("Jobs")
        say_table(incident.jobs, involved_columns(states), indent=2)
    if incident.more_jobs:
        runs = counted(incident.more_jobs, "run")
        say_block(f"and {runs} more before these; the errors of those jobs name this incident", style="dim")
    for name, text in parts.items():
        say_heading(name.replace("_", " ").capitalize())
        say_block(text)


def _fields(incident: Incident, now: datetime) -> dict[str, str | Text | None]:
    again = incident.count > 1
    return {
        "first" if again else "when": dated(incident.at, now),
        "last": dated(incident.last_at, now) if again else None,
        "times": f"{incident.count:,}" if again else None,
        "host": incident.host or None,
        "pid": str(incident.pid) if incident.pid else None,
        "worker": incident.worker or None,
        "supervisor": incident.supervisor or None,
        "folder": f"{incident.folder} (on {incident.host})" if incident.folder else None,
    }
