"""`standfast incidents`: read what went wrong with workers, and the evidence; take it along, forget it."""

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import click
from msgspec.structs import asdict
from rich.text import Text

from standfast.admin.executor import AdminSession
from standfast.admin.fields import WithId, texts_seen
from standfast.admin.incidents import (
    IncidentRow,
    IncidentsAsked,
    IncidentSeen,
    InvolvedSeen,
    forget_incident,
    list_all,
    show_one,
)
from standfast.admin.jobs import WhichJob, show_job
from standfast.cli.connection import StoreOptions, examples, store_options, tz_option, yes_option
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.inputs import confirm, read_moment_or_span
from standfast.cli.output import (
    Column,
    answer,
    coloured,
    cut,
    number,
    say,
    say_block,
    say_fields,
    say_heading,
    say_json,
    say_table,
)
from standfast.errors import IncidentNotFoundError, JobNotFoundError
from standfast.model.display import counted, dated, legible, one_line, relative, short_id
from standfast.model.incidents import Incident, Trouble
from standfast.observe.incidents import list_incidents, read_evidence, trouble_words
from standfast.stores.backend import Backend
from standfast.stores.verb import run_procedure
from standfast.supervisor.incidents.folders import files_of, fit_name

_SHORTEST_END = 6
_WIDE = 140
_STYLES: Mapping[Trouble, str] = MappingProxyType(
    {
        Trouble.CRASH: "bold red",
        Trouble.HANG: "bold red",
        Trouble.OUT_OF_MEMORY: "bold red",
        Trouble.LOST: "red",
        Trouble.EMPTIED: "bold red",
        Trouble.RETIRED: "yellow",
        Trouble.STUCK: "yellow",
        Trouble.TIMEOUT: "yellow",
        Trouble.EXCEPTION: "red",
        Trouble.UNREACHABLE: "bold red",
        Trouble.SNAPSHOT: "dim",
    }
)


class TroubleWords(click.Choice[str]):
    """A trouble as it is typed: as `--json` has it, or as tables show it."""

    def __init__(self) -> None:
        super().__init__([trouble.value for trouble in Trouble])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Trouble:
        """Return the trouble that is meant."""
        return Trouble(super().convert("_".join(value.lower().split()), param, ctx))


def _trouble(trouble: Trouble) -> Text:
    """Return a trouble in its colour."""
    return Text(trouble_words(trouble), style=_STYLES[trouble])


def _columns(now: datetime) -> list[Column[IncidentRow]]:
    return [
        Column("ID", lambda each: short_id(each.id), below_width=_WIDE),
        Column("ID", lambda each: each.id, short=lambda each: short_id(each.id), from_width=_WIDE),
        Column("LAST", lambda each: relative(each.last_at, now), below_width=_WIDE, vital=2),
        Column("LAST", lambda each: dated(each.last_at, now), from_width=_WIDE, vital=2),
        Column("TROUBLE", lambda each: _trouble(each.trouble), vital=2),
        Column("TIMES", lambda each: number(each.count), justify="right", vital=1),
        Column("JOBS", lambda each: cut(_jobs(each)), shrinks=True, vital=1),
        Column("HOST", lambda each: cut(each.host), shrinks=True),
        Column("WHAT", lambda each: cut(each.summary), shrinks=True, vital=1),
    ]


_INVOLVED_COLUMNS: list[Column[InvolvedSeen]] = [
    Column("JOB", lambda job: job.job, short=lambda job: short_id(job.job)),
    Column("TASK", lambda job: cut(job.task), shrinks=True),
    Column("NOW", lambda job: coloured(job.state) if job.state else Text("forgotten", style="dim"), vital=1),
    Column("CLAIM", lambda job: str(job.fence), justify="right"),
    Column("ATTEMPT", lambda job: str(job.attempt or ""), justify="right"),
    Column("PROGRESS", lambda job: cut(job.progress or ""), shrinks=True),
]


def _jobs(incident: IncidentRow) -> str:
    """Return which jobs there were: the one, or the tasks of several."""
    jobs, ids = incident.jobs, {job.job for job in incident.jobs}
    if len(ids) == 1 and not incident.more_jobs:
        return f"{jobs[0].task} {short_id(jobs[0].job)}".strip()
    tasks = ", ".join(dict.fromkeys(job.task for job in jobs if job.task))
    more = "more than " if incident.more_jobs else ""
    return f"{more}{counted(len(ids), 'job')}{f' of {tasks}' if tasks else ''}" if ids else ""


# `standfast incidents show`: all that is known of one incident, with its evidence.


@click.command(
    epilog=examples(
        "standfast incidents show 3c2d1e0f",
        "standfast incidents show 3c2d1e0f --part stacks",
        "standfast incidents show 3c2d1e0f --json",
    )
)
@click.argument("incident_id", metavar="ID")
@click.option("--part", metavar="NAME", help="Print this part of the evidence alone, as it is.")
@store_options
def show(wanted: StoreOptions, incident_id: str, part: str | None) -> None:
    """Show all that is known of an incident.

    ID is an incident's id, or its last characters as the list and the errors of jobs show them.
    """
    with wanted.admin() as admin:
        seen = admin.run(show_one, WithId(id=incident_id))
        backend = admin.backend
        parts = run_procedure(backend.run, read_evidence(backend.verbs, seen.id)).parts
    if part is not None and part not in parts:
        names = ", ".join(parts) or "none at all"
        raise IncidentNotFoundError(f"the evidence of incident {seen.id} has no part '{part}'; it has {names}")
    if wanted.as_json:
        say_json({**asdict(seen), "evidence": seen.evidence if part is None else texts_seen({part: parts[part]})})
    elif part is not None:
        click.echo("\n".join(map(legible, parts[part].splitlines())))
    else:
        _tell(seen, parts)


def _tell(seen: IncidentSeen, parts: Mapping[str, str]) -> None:
    say(Text.assemble(_trouble(seen.trouble), "  ", (seen.id, "dim")))
    say(one_line(seen.summary))
    say("")
    say_fields(_fields(seen))
    if seen.jobs:
        say_heading("Jobs")
        say_table(seen.jobs, _INVOLVED_COLUMNS, indent=2)
    if seen.more_jobs:
        runs = counted(seen.more_jobs, "run")
        say_block(f"and {runs} more before these; the errors of those jobs name this incident", style="dim")
    for name, text in parts.items():
        say_heading(name.replace("_", " ").capitalize())
        say_block(text)


def _fields(incident: IncidentSeen) -> dict[str, str | Text | None]:
    again, now = incident.count > 1, incident.now
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


# `standfast incidents export`: incidents as files, to be sent to somebody or looked at elsewhere.

_ARCHIVE = ".zip"


@click.command(
    epilog=examples(
        "standfast incidents export 3c2d1e0f --to incident.zip",
        "standfast incidents export --all --to /var/tmp/incidents",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="All incidents.")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE.zip|FOLDER",
    type=click.Path(path_type=Path),
    help="Where to: an archive, or a folder that is made.",
)
@yes_option
@store_options
def export(wanted: StoreOptions, /, *, ids: tuple[str, ...], everything: bool, target: Path, yes: bool) -> None:
    """Write incidents with their evidence to an archive or a folder.

    Each has a folder there, with incident.json and a text for each part of the evidence: the same files as on the
    machine where it happened. What is there already is overwritten after asking.
    """
    if bool(ids) == everything:
        raise wrong_usage("give the ids of incidents, or --all, and not both")
    with wanted.admin() as admin:
        backend = admin.backend
        kept = run_procedure(backend.run, list_incidents(backend.verbs))
        named = {admin.run(show_one, WithId(id=each)).id for each in ids}
        chosen = [each for each in kept if everything or each.id in named]
        overwritten = _existing(target, chosen)
        if overwritten and not yes:
            confirm(f"Overwrite {overwritten}?")
        write = _write_archive if target.suffix.lower() == _ARCHIVE else _write_folders
        write(backend, chosen, target)
    exported = {"exported": [incident.id for incident in chosen], "to": str(target)}
    answer(wanted, exported, f"{counted(len(chosen), 'incident')} exported to {target}.")


def _existing(target: Path, chosen: Sequence[Incident]) -> str:
    """Return what would be overwritten, in words; nothing where nothing would."""
    if target.suffix.lower() == _ARCHIVE:
        if target.is_dir():
            raise wrong_usage(f"--to: {target} is a folder; name a file in it, or a folder whose name has no .zip")
        return str(target) if target.exists() else ""
    if target.exists() and not target.is_dir():
        raise wrong_usage(f"--to: {target} is a file; give a folder, or a name that ends in {_ARCHIVE}")
    there = [incident for incident in chosen if (target / fit_name(incident.id)).exists()]
    return f"{counted(len(there), 'incident')} in {target}" if there else ""


def _contents(backend: Backend, chosen: Sequence[Incident]) -> Iterator[tuple[str, str, bytes]]:
    """Yield each file: the folder it is in, its name, its content."""
    for incident in chosen:
        evidence = run_procedure(backend.run, read_evidence(backend.verbs, incident.id))
        for name, content in files_of(incident, evidence).items():
            yield fit_name(incident.id), name, content


def _write_archive(backend: Backend, chosen: Sequence[Incident], target: Path) -> None:
    """Write an archive that nobody else may read, whole or not at all."""
    descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for folder, name, content in _contents(backend, chosen):
                archive.writestr(f"{folder}/{name}", content)
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _write_folders(backend: Backend, chosen: Sequence[Incident], target: Path) -> None:
    target.mkdir(mode=0o700, exist_ok=True)
    for incident in chosen:
        shutil.rmtree(target / fit_name(incident.id), ignore_errors=True)
    for folder, name, content in _contents(backend, chosen):
        place = target / folder
        place.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


# `standfast incidents forget`: a person has read them, and wants to see them no more.


@click.command(
    epilog=examples(
        "standfast incidents forget 3c2d1e0f",
        "standfast incidents forget --before 7d",
        "standfast incidents forget --all --yes",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--before", metavar="TIME", help="Those that last happened before this: 7d, or a date; after asking.")
@click.option("--all", "everything", is_flag=True, help="All incidents, after asking.")
@tz_option
@yes_option
@store_options
def forget(
    wanted: StoreOptions,
    /,
    *,
    ids: tuple[str, ...],
    before: str | None,
    everything: bool,
    tz: str | None,
    yes: bool,
) -> None:
    """Forget incidents and their evidence in the store.

    Folders on the machines where they happened stay until they are too many or too old.
    """
    if sum(map(bool, (ids, before, everything))) != 1:
        raise wrong_usage("give the ids of incidents, or --before, or --all, and only one of these")
    until = None if before is None else read_moment_or_span("--before", before, tz, datetime.now(UTC))
    with wanted.admin() as admin:
        if ids:
            chosen = [admin.run(show_one, WithId(id=each)).id for each in ids]
        else:
            listed = admin.run(list_all, IncidentsAsked(limit=sys.maxsize))
            chosen = [each.id for each in listed.rows if until is None or each.last_at < until]
        if chosen and not ids and not yes:
            confirm(f"Forget {counted(len(chosen), 'incident')}?")
        names = [admin.run(forget_incident, WithId(id=each)).id for each in dict.fromkeys(chosen)]
    told = f"{counted(len(names), 'incident')} forgotten." if names else "No incident matches."
    answer(wanted, {"forgotten": names}, told)


# The group, and the list.


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


def _check_end(_ctx: click.Context, _parameter: click.Parameter, job_id: str | None) -> str | None:
    """Refuse an id of which too little is given."""
    if job_id is not None and len(job_id) < _SHORTEST_END:
        raise click.BadParameter(
            f"'{job_id}' is too short for an id; give its last {_SHORTEST_END} characters or more"
        )
    return job_id


@incidents.command(
    "list",
    epilog=examples(
        "standfast incidents list",
        "standfast incidents list --since 12h --trouble crash --trouble hang",
        "standfast incidents list --task send_email --json",
    ),
)
@click.option(
    "--trouble", "troubles", multiple=True, type=TroubleWords(), help="Only this kind; may be given several times."
)
@click.option("--since", metavar="TIME", help="Only those that happened after this: 12h, 2d, or a date.")
@click.option("--job", metavar="ID", callback=_check_end, help="Only those in which this job was involved.")
@click.option("--task", metavar="NAME", help="Only those in which a job of this task was involved.")
@click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many.")
@tz_option
@store_options
def list_command(
    wanted: StoreOptions,
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
    after = None if since is None else read_moment_or_span("--since", since, tz, datetime.now(UTC)).isoformat()
    with wanted.admin() as admin:
        asked = IncidentsAsked(trouble=troubles, since=after, job=_whole_id(admin, job), task=task, limit=limit)
        seen = admin.run(list_all, asked)
        some = bool(seen.total or admin.run(list_all, IncidentsAsked(limit=1)).total)
    if wanted.as_json:
        say_json(seen.rows)
    elif not seen.rows:
        say("No incident matches." if some else "No incidents.")
    else:
        say_table(seen.rows, _columns(seen.now))
        if seen.total > limit:
            say(f"\nThe last {counted(limit, 'incident')} of {seen.total:,}; --limit shows more")


def _whole_id(admin: AdminSession, job: str | None) -> str | None:
    """Return the id of the job that is meant, whose errors may name incidents; one that is forgotten has none."""
    if job is not None:
        with suppress(JobNotFoundError):
            return admin.run(show_job, WhichJob(id=job)).id
    return job
