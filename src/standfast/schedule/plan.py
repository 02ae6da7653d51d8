"""What is kept of a schedule: its rule, the job that it enqueues, and how far it has come."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Self

import msgspec
from msgspec.structs import asdict

from standfast.core.job import NewJob, OnLate
from standfast.core.provenance import PLANNED_KEY, SCHEDULE_KEY
from standfast.core.record import Kind, Record
from standfast.errors import ConfigurationError, ScheduleUnreadableError
from standfast.ids import new_job_id
from standfast.phrases import Phrase
from standfast.schedule.rules import AnyRule, Ground


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
