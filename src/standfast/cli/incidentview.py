"""An incident as the fields that `--json` prints, and the columns in which lists show it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import click
import msgspec
from rich.text import Text

from standfast.cli.output import Column, coloured, cut, number
from standfast.core.incident import Incident, InvolvedJob, Trouble
from standfast.core.states import State
from standfast.incidents.health import trouble_words
from standfast.words import counted, dated, relative, short_id

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

States = Mapping[str, State]
"""The state now of each job that still exists."""


class TroubleWords(click.Choice[str]):
    """A trouble as it is typed: as `--json` has it, or as tables show it."""

    def __init__(self) -> None:
        super().__init__([trouble.value for trouble in Trouble])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Trouble:
        """Return the trouble that is meant."""
        return Trouble(super().convert("_".join(value.lower().split()), param, ctx))


def incident_fields(incident: Incident) -> dict[str, Any]:
    """Return everything there is about an incident but its evidence, ready for JSON."""
    return msgspec.structs.asdict(incident)


def involved_fields(jobs: Sequence[InvolvedJob], states: States) -> list[dict[str, Any]]:
    """Return the jobs of an incident with their state now, which is null for one that is forgotten."""
    return [{**msgspec.structs.asdict(job), "state": states.get(job.job_id)} for job in jobs]


def trouble_text(trouble: Trouble) -> Text:
    """Return a trouble in its colour."""
    return Text(trouble_words(trouble), style=_STYLES[trouble])


def incident_columns(now: datetime) -> list[Column[Incident]]:
    """Return the columns of a list of incidents."""
    return [
        Column("ID", lambda each: short_id(each.id), below_width=_WIDE),
        Column("ID", lambda each: each.id, short=lambda each: short_id(each.id), from_width=_WIDE),
        Column("LAST", lambda each: relative(each.last_at, now), below_width=_WIDE, vital=2),
        Column("LAST", lambda each: dated(each.last_at, now), from_width=_WIDE, vital=2),
        Column("TROUBLE", lambda each: trouble_text(each.trouble), vital=2),
        Column("TIMES", lambda each: number(each.count), justify="right", vital=1),
        Column("JOBS", lambda each: cut(_jobs(each)), shrinks=True, vital=1),
        Column("HOST", lambda each: cut(each.host), shrinks=True),
        Column("WHAT", lambda each: cut(each.summary), shrinks=True, vital=1),
    ]


def involved_columns(states: States) -> list[Column[InvolvedJob]]:
    """Return the columns of the jobs of an incident."""
    return [
        Column("JOB", lambda job: job.job_id, short=lambda job: short_id(job.job_id)),
        Column("TASK", lambda job: cut(job.task), shrinks=True),
        Column("NOW", lambda job: _state(states.get(job.job_id)), vital=1),
        Column("CLAIM", lambda job: str(job.fence), justify="right"),
        Column("ATTEMPT", lambda job: str(job.attempt or ""), justify="right"),
        Column("PROGRESS", lambda job: cut(job.progress or ""), shrinks=True),
    ]


def _jobs(incident: Incident) -> str:
    """Return which jobs there were: the one, or the tasks of several."""
    jobs, ids = incident.jobs, {job.job_id for job in incident.jobs}
    if len(ids) == 1 and not incident.more_jobs:
        return f"{jobs[0].task} {short_id(jobs[0].job_id)}".strip()
    tasks = ", ".join(dict.fromkeys(job.task for job in jobs if job.task))
    more = "more than " if incident.more_jobs else ""
    return f"{more}{counted(len(ids), 'job')}{f' of {tasks}' if tasks else ''}" if ids else ""


def _state(state: State | None) -> Text:
    return Text("forgotten", style="dim") if state is None else coloured(state)
