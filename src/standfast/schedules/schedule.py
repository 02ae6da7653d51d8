"""What is kept of a schedule: its rule, the job that it enqueues, and how far it has come."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Self

import msgspec
from msgspec.structs import asdict

from standfast.errors import ConfigurationError, ScheduleUnreadableError
from standfast.model.ids import new_job_id
from standfast.model.job import PLANNED_KEY, SCHEDULE_KEY, NewJob, OnLate
from standfast.model.phrases import Phrase
from standfast.model.records import Kind, Record
from standfast.schedules.calendar import Calendar
from standfast.schedules.description import Upcoming, upcoming
from standfast.schedules.rules import AnyRule, Ground, Rule
from standfast.schedules.windows import Window
from standfast.schedules.zones import find_zone, first_instant, wall_at


class Template(msgspec.Struct, frozen=True):
    """The job that each fire enqueues, complete and validated."""

    task: str
    payload: bytes
    version: int = 1
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    start_within: timedelta | None = None
    on_late: OnLate = OnLate.RUN
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}

    def __repr__(self) -> str:  # without the payload, which may hold secrets
        return f"<Template of {self.task}>"

    @classmethod
    def of(cls, job: NewJob) -> Self:
        """Return what a job says of every job of its schedule."""
        return cls(**{name: getattr(job, name) for name in cls.__struct_fields__})

    def job(self, schedule: str, planned: datetime, run_at: datetime) -> NewJob:
        """Return the job of one fire."""
        told = {**self.metadata, SCHEDULE_KEY: schedule, PLANNED_KEY: planned.isoformat()}
        return NewJob(**{**asdict(self), "id": new_job_id(), "run_at": run_at, "metadata": told})


class Origin(msgspec.Struct, frozen=True):
    """Which release of which app declares a schedule; `mark` tells one declaration from another."""

    app: str
    release: str
    mark: str


class Run(msgspec.Struct, frozen=True):
    """A job of the schedule that was not over when somebody last looked."""

    job_id: str
    planned: datetime


class Plan(msgspec.Struct, frozen=True):
    """All about a schedule but its name.

    Every planned time up to `cursor` is decided. `runs` are the jobs that still matter to what is decided next:
    those fired ahead of their time, and those that may overlap. `waiting` are fires that wait for the end of a run.
    """

    rule: AnyRule
    job: Template
    created_at: datetime
    cursor: datetime
    origin: Origin | None = None
    paused_at: datetime | None = None
    paused_why: str | None = None
    retired_at: datetime | None = None
    runs: tuple[Run, ...] = ()
    waiting: tuple[datetime, ...] = ()

    @property
    def active(self) -> bool:
        """Whether it fires at all."""
        return self.paused_at is None and self.retired_at is None


class Schedule(msgspec.Struct, frozen=True):
    """A schedule as anyone may look at it. At `due_at` it is looked at next.

    `version` and `token` are those of its record; one that is not stored yet has none.
    """

    name: str
    version: int
    plan: Plan
    due_at: datetime | None = None
    token: str | None = None

    @property
    def ground(self) -> Ground:
        """What the times of its rule depend on besides."""
        return Ground(self.name, self.plan.created_at)


_DECODER = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    """Return the body of a record."""
    return msgspec.json.encode(plan)


def read_schedule(record: Record) -> Schedule:
    """Return the schedule of a record. Raises ScheduleUnreadableError."""
    assert record.kind is Kind.SCHEDULE
    try:
        plan = _DECODER.decode(record.body)
    except (msgspec.MsgspecError, ConfigurationError, UnicodeDecodeError) as error:  # such as a zone not known here
        raise ScheduleUnreadableError(
            Phrase("unreadable.schedule", schedule=repr(record.name), error=str(error))
        ) from error
    return Schedule(record.name, record.version, plan, record.due_at, record.token)


def read_schedules(records: Iterable[Record]) -> tuple[list[Schedule], list[ScheduleUnreadableError]]:
    """Return the schedules that can be read, and what is wrong with the others: they concern nobody here."""
    readable: list[Schedule] = []
    unreadable: list[ScheduleUnreadableError] = []
    for record in records:
        try:
            readable.append(read_schedule(record))
        except ScheduleUnreadableError as error:
            unreadable.append(error)
    return readable, unreadable


_STEPS = 10
"""So many planned times are looked at one by one for the next that is not excluded."""

_LEAPS = 1000
"""And so many excluded spans are leapt over."""


class ScheduleStatus(StrEnum):
    """How a schedule stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    RETIRED = "retired"
    """Code declared it once, and does so no more."""
    DONE = "done"
    """No time is left."""


def schedule_status(schedule: Schedule, now: datetime) -> ScheduleStatus:
    """Return how it stands."""
    plan = schedule.plan
    if plan.retired_at is not None:
        return ScheduleStatus.RETIRED
    if plan.paused_at is not None:
        return ScheduleStatus.PAUSED
    ahead = schedule.due_at is not None or any(run.planned > now for run in plan.runs)
    return ScheduleStatus.ACTIVE if ahead else ScheduleStatus.DONE


def coming(schedule: Schedule, now: datetime, count: int) -> tuple[Upcoming, ...]:
    """Return the next planned times, those that are excluded among them.

    A fire ahead of its time that stands though the rule was changed since is one of them.
    """
    plan = schedule.plan
    ahead = {run.planned: Upcoming(run.planned, run.planned) for run in plan.runs if run.planned > now}
    decided = {
        each.planned: each
        for each in upcoming(plan.rule, schedule.ground, now, count)
        if each.planned <= plan.cursor and (each.excluded is not None or each.planned in ahead)
    }
    undecided = upcoming(plan.rule, schedule.ground, max(now, plan.cursor), count)
    known = {**ahead, **decided, **{each.planned: each for each in undecided}}
    return tuple(known[planned] for planned in sorted(known)[:count])


def next_fire(schedule: Schedule, now: datetime) -> Upcoming | None:
    """Return the next planned time that is not excluded; None where there is none, or none for very long."""
    if schedule_status(schedule, now) is not ScheduleStatus.ACTIVE:
        return None
    found = coming(schedule, now, _STEPS)
    for _ in range(_LEAPS):
        fired = next((each for each in found if each.excluded is None), None)
        if fired is not None or not found:
            return fired
        after = _end_of_exclusion(schedule.plan.rule, found[-1].planned) - timedelta.resolution
        found = upcoming(schedule.plan.rule, schedule.ground, after, 1)
    return None


def _end_of_exclusion(rule: Rule, moment: datetime) -> datetime:
    """Return when that ends which excludes a moment: a window, or a day."""
    for each in rule.exclude:
        if isinstance(each, Window):
            span = each.span_at(moment)
            if span is not None:
                return span[1]
        elif isinstance(each, Calendar) and each.excluded(moment) is not None:
            return _midnight_after(moment, find_zone(each.tz))
    return _midnight_after(moment, zone_of(rule) or UTC)


def _midnight_after(moment: datetime, zone: tzinfo) -> datetime:
    return first_instant(zone, datetime.combine(wall_at(zone, moment).date() + timedelta(days=1), time()))


def zone_of(rule: Rule) -> tzinfo | None:
    """Return the zone by whose clock a rule goes; None where it goes by none, or by several."""
    zones = rule.zones()
    return find_zone(next(iter(zones))) if len(zones) == 1 else None
