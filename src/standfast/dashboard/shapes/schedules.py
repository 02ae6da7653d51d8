"""Schedules, their times and what became of them."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from standfast.core.record import Decision, FireCause
from standfast.core.states import State
from standfast.dashboard.shapes.values import ValueSeen
from standfast.dashboard.shapes.words import Arguments, Named, QueueName, Text, Told, When, Word
from standfast.phrases import Phrase


class FireSeen(Told, frozen=True, kw_only=True):
    """What became of one planned time, or of `count` in a row of which `until` is the last."""

    planned: datetime
    decision: Decision
    cause: FireCause
    count: int
    until: datetime | None
    decided_at: datetime | None
    why: Phrase | None
    job: str | None


class UpcomingSeen(Told, frozen=True, kw_only=True):
    """A planned time to come. `excluded` says why it will not be fired, `note` what changed clocks do to it."""

    planned: datetime
    run_at: datetime
    excluded: Phrase | None = None
    note: Phrase | None = None


class RunSeen(Told, frozen=True, kw_only=True):
    """A job of the schedule that is not over."""

    job: str
    planned: datetime
    state: State


class ScheduleRow(Told, frozen=True, kw_only=True):
    """A schedule in short. `state` is active, paused, retired, done, or unreadable: then `problem` says why.

    `failing`: the job of its last fire is dead.
    """

    name: str
    state: str
    words: Phrase
    task: str | None
    queue: str | None
    next_at: datetime | None
    zone: str | None
    last: FireSeen | None
    failing: bool
    paused_at: datetime | None
    paused_why: str | None
    app: str | None
    problem: Phrase | None = None


class SchedulesSeen(Told, frozen=True, kw_only=True):
    """All schedules, by name. `idle`: no worker lives, so nothing is fired."""

    now: datetime
    idle: bool
    schedules: tuple[ScheduleRow, ...]


class ScheduleSeen(Told, frozen=True, kw_only=True):
    """A schedule with its next times, what became of the last ones, and the job that it enqueues."""

    now: datetime
    idle: bool
    row: ScheduleRow
    rule: dict[str, Any]
    next: tuple[UpcomingSeen, ...]
    fires: tuple[FireSeen, ...]
    runs: tuple[RunSeen, ...]
    waiting: tuple[datetime, ...]
    created_at: datetime
    release: str | None
    args: dict[str, ValueSeen]
    args_problem: Phrase | None
    version: int
    priority: int
    max_attempts: int
    tags: tuple[str, ...]
    metadata: dict[str, str]


class SchedulePauseAsked(Named, frozen=True, kw_only=True):
    """Which schedule is to fire no more, and why."""

    why: Text | None = None


class ScheduleEditAsked(Named, frozen=True, kw_only=True):
    """What is to change about a schedule; null stays as it is.

    `cron` or `every` (seconds) with `tz` take the place of its times; `rule` of all of its rule, as
    `schedules.show` has it. `args` are all arguments that are not secret.
    """

    cron: Word | None = None
    every: Annotated[float, msgspec.Meta(gt=0, le=3_153_600_000)] | None = None
    tz: Word | None = None
    rule: dict[str, Any] | None = None
    args: Arguments | None = None
    queue: QueueName | None = None
    priority: Annotated[int, msgspec.Meta(ge=-32_768, le=32_767)] | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=32_767)] | None = None


class BackfillAsked(Named, frozen=True, kw_only=True):
    """For which past times to enqueue jobs; a date with its zone, or how long ago, such as 6h.

    With `dry`, they are only counted. With `again`, also for those that were fired.
    """

    since: When
    until: When | None = None
    again: bool = False
    dry: bool = False


class ScheduleDone(Told, frozen=True, kw_only=True):
    """A schedule and how it stands now; `job` is the one that was enqueued, `count` how many were."""

    name: str
    state: str
    next_at: datetime | None = None
    job: str | None = None
    count: int | None = None
