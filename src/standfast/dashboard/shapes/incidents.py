"""Incidents, and their evidence."""

from datetime import datetime

from standfast.core.incident import Trouble
from standfast.core.states import State
from standfast.dashboard.shapes.values import TextSeen
from standfast.dashboard.shapes.words import Asks, Limit, Told, When, Word


class IncidentsAsked(Asks, frozen=True, kw_only=True):
    """Which incidents: of this kind, since then, with this job or a job of this task; `before` is the `next`."""

    trouble: Trouble | None = None
    since: When | None = None
    job: Word | None = None
    task: Word | None = None
    before: Word | None = None
    limit: Limit = 50


class InvolvedSeen(Told, frozen=True, kw_only=True):
    """A job that was running then. `state` is its state now, null where it is forgotten."""

    job: str
    task: str
    fence: int
    attempt: int
    progress: str | None = None
    state: State | None = None


class IncidentRow(Told, frozen=True, kw_only=True):
    """An incident in short; `words` says what kind of trouble it was."""

    id: str
    trouble: Trouble
    words: str
    summary: str
    at: datetime
    last_at: datetime
    count: int
    host: str
    worker: str
    supervisor: str
    pid: int
    jobs: tuple[InvolvedSeen, ...]
    more_jobs: int


class IncidentsSeen(Told, frozen=True, kw_only=True):
    """Incidents, the last first."""

    now: datetime
    rows: tuple[IncidentRow, ...]
    next: str | None
    total: int


class IncidentSeen(Told, frozen=True, kw_only=True):
    """An incident with its evidence by name, bounded. `folder` is where its files are, on its host."""

    now: datetime
    row: IncidentRow
    folder: str | None
    evidence: dict[str, TextSeen]


class IncidentDone(Told, frozen=True, kw_only=True):
    """The incident that was forgotten."""

    id: str
