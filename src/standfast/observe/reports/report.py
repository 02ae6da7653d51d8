"""What a report says. Nothing in it is an argument of a job, and errors are as they are stored: without secrets."""

from datetime import datetime, timedelta

import msgspec

from standfast.model.alerts import NoticeKind, Severity
from standfast.observe.burn_rates import Standing


class TaskLine(msgspec.Struct, frozen=True):
    """What the jobs of a task came to. `failed` are attempts that are tried again; spans are None without a run."""

    task: str
    runs: int
    completed: int
    failed: int
    dead: int
    cancelled: int
    run_p50: timedelta | None
    run_p95: timedelta | None
    run_longest: timedelta | None
    lag_p50: timedelta | None
    lag_p95: timedelta | None
    lag_longest: timedelta | None


class DeathLine(msgspec.Struct, frozen=True):
    """Jobs that died of errors of one shape, and are dead still; `example` is the id of the newest."""

    fingerprint: str
    error: str
    count: int
    tasks: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    example: str


class IncidentLine(msgspec.Struct, frozen=True):
    """What went wrong with a process, `count` times since `first_at`, which may be before the report begins."""

    id: str
    trouble: str
    summary: str
    count: int
    host: str
    first_at: datetime
    last_at: datetime


class MissedLine(msgspec.Struct, frozen=True):
    """How often nobody was there when a schedule was to fire; `made_up` of these times were fired afterwards."""

    schedule: str
    count: int
    first_at: datetime
    last_at: datetime
    made_up: int = 0


class NoticeLine(msgspec.Struct, frozen=True):
    """What people were told."""

    at: datetime
    kind: NoticeKind
    severity: Severity
    rule: str
    title: str


class AlertLine(msgspec.Struct, frozen=True):
    """A rule that is broken now. `heard` is what is known of people: told, not told yet, silenced, acknowledged."""

    rule: str
    subject: str
    severity: Severity
    since: datetime
    says: str
    heard: str


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """A queue whose oldest due job waits for long, or with nobody there to run it; `due` is how many are due."""

    queue: str
    oldest_due_at: datetime
    waits: timedelta
    due: int
    is_served: bool
    paused_at: datetime | None = None


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """How things were when the report was made: how many workers lived, what fired, which queues waited."""

    workers: int
    alerts: tuple[AlertLine, ...] = ()
    queues: tuple[QueueLine, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return bool(self.workers) and not self.alerts and not self.queues


class Deliveries(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries arrived, were lost or wait; `lost_in` are the channels of those that are dead letters."""

    delivered: int = 0
    lost: int = 0
    waiting: int = 0
    lost_in: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """A report of all that happened from `since` to `until`, which is when it was made.

    apps: those whose workers have published themselves; now: what is wrong at `until`; total: all tasks in one;
    left_out: what was too much to be looked at, in words. What Standfast runs to tell people is not in it.
    """

    since: datetime
    until: datetime
    apps: tuple[str, ...]
    now: Present
    total: TaskLine
    tasks: tuple[TaskLine, ...] = ()
    deaths: tuple[DeathLine, ...] = ()
    incidents: tuple[IncidentLine, ...] = ()
    missed: tuple[MissedLine, ...] = ()
    standings: tuple[Standing, ...] = ()
    notices: tuple[NoticeLine, ...] = ()
    deliveries: Deliveries = Deliveries()
    left_out: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is wrong or went wrong: no death, incident, missed time, broken budget, lost delivery."""
        broken = any(not each.is_kept for each in self.standings)
        went_wrong = self.total.dead or self.deaths or self.incidents or self.missed or self.deliveries.lost
        return self.now.is_well and not (went_wrong or broken)
