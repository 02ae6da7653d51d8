"""Whether all is well, at a glance."""

from datetime import datetime
from enum import StrEnum

from standfast.dashboard.shapes.alerts import AlertRow
from standfast.dashboard.shapes.incidents import IncidentRow
from standfast.dashboard.shapes.jobs import JobRow
from standfast.dashboard.shapes.schedules import ScheduleRow
from standfast.dashboard.shapes.words import Told
from standfast.phrases import Phrase


class Level(StrEnum):
    """How it is, all in all."""

    WELL = "well"
    ATTENTION = "attention"
    TROUBLE = "trouble"


class Finding(Told, frozen=True, kw_only=True):
    """Something to know: a code with its parameters, a sentence, and where in the dashboard there is more."""

    code: str
    severity: Level
    params: dict[str, str | int | float]
    sentence: Phrase
    href: str


class VerdictSeen(Told, frozen=True, kw_only=True):
    """All in all: the worst of the findings, and a sentence."""

    level: Level
    sentence: str
    findings: tuple[Finding, ...]


class QueueShort(Told, frozen=True, kw_only=True):
    """A queue in short. `completed` is how many jobs did so in each minute of the last hour, and in this one."""

    name: str
    paused_at: datetime | None
    ready: int
    busy: int
    oldest_age: float | None
    completed: tuple[int, ...]


class OverviewSeen(Told, frozen=True, kw_only=True):
    """What a person sees first. Ages are in seconds; `per_minute` is what completed in the last whole minute.

    `alerts` are those that fire and are not silenced, the worst first.
    """

    now: datetime
    verdict: VerdictSeen
    workers_live: int
    workers_total: int
    counts: dict[str, int]
    oldest_due_age: float | None
    per_minute: float | None
    failures: tuple[JobRow, ...]
    schedules: tuple[ScheduleRow, ...]
    incidents: tuple[IncidentRow, ...]
    store_took: float
    queues: tuple[QueueShort, ...] = ()
    alerts: tuple[AlertRow, ...] = ()
