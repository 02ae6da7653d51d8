"""Jobs in lists: which of them are meant, and what is told of each."""

from collections.abc import AsyncIterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from standfast.core.states import State
from standfast.dashboard.shapes.values import ProgressSeen
from standfast.dashboard.shapes.words import Asks, Limit, Text, Told, When, Word
from standfast.phrases import Phrase

States = Annotated[tuple[State, ...], msgspec.Meta(max_length=8)]
Tags = Annotated[tuple[Word, ...], msgspec.Meta(max_length=20)]
BulkAction = Literal["retry", "cancel", "discard", "reschedule"]

MOST_WRITTEN = 100_000
"""So many jobs one file has, at most."""


class JobsWhich(Asks, frozen=True, kw_only=True):
    """Which jobs are meant; what is empty selects all.

    `since` and `until` are about when a job was made: a date with its zone, or how long ago, such as 2h. `error` is
    a part of the last error, `fingerprint` that of an error (dead jobs only), `text` is looked for in task, id,
    key, tags, error and arguments of the newest jobs.
    """

    state: States = ()
    task: Word | None = None
    queue: Word | None = None
    tag: Tags = ()
    key: Word | None = None
    schedule: Word | None = None
    worker: Word | None = None
    since: When | None = None
    until: When | None = None
    error: Text | None = None
    fingerprint: Word | None = None
    text: Word | None = None


class JobsAsked(JobsWhich, frozen=True, kw_only=True):
    """One page of jobs, newest first; `before` is the `next` of the page before."""

    before: Word | None = None
    limit: Limit = 50


class JobRow(Told, frozen=True, kw_only=True):
    """A job in short. `at` is the time that matters: its end, or else when it is due."""

    id: str
    task: str
    queue: str
    state: State
    reason: str | None
    priority: int
    attempt: int
    max_attempts: int
    at: datetime
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    worker: str | None
    key: str | None
    tags: tuple[str, ...]
    schedule: str | None
    waits_for: Phrase | None
    cancel_requested: bool
    progress: ProgressSeen | None
    error: str | None
    fingerprint: str | None


class JobsSeen(Told, frozen=True, kw_only=True):
    """One page of jobs. `next` is where the next page starts, null on the last.

    Where text or fingerprint are looked for, `span` is how many of the newest jobs are looked at for one page; and
    `bounded` means that the look ended there, and goes on at `next`. `tasks` and `queues` are the names that are
    known, to choose from.
    """

    now: datetime
    rows: tuple[JobRow, ...]
    next: str | None = None
    span: int | None = None
    bounded: bool = False
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


class CountAsked(JobsWhich, frozen=True, kw_only=True):
    """How many jobs are meant, and what is to be done with them."""

    action: BulkAction | None = None


class JobsCounted(Told, frozen=True, kw_only=True):
    """How many jobs are meant; with `more`, at least so many.

    With an action, how many of them it can be done to. `confirm` is what `jobs.bulk` asks for.
    """

    count: int
    more: bool
    span: int | None
    confirm: str


class ExportAsked(JobsWhich, frozen=True, kw_only=True):
    """Which jobs to write out, as what, and how many at most; `before` is the last id of another file."""

    format: Literal["csv", "json"] = "json"
    before: Word | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_WRITTEN)] = MOST_WRITTEN


class JobsExported(Told, frozen=True, kw_only=True):
    """A file of this name and type, which is written while its `parts` are taken. It has at most `limit` jobs.

    Where text or fingerprint are looked for, `span` is how many of the newest jobs are looked at for it.
    """

    name: str
    type: str
    limit: int
    span: int | None
    parts: AsyncIterable[str]


class BulkAsked(JobsWhich, frozen=True, kw_only=True):
    """What to do with all jobs that are meant, as `jobs.count` has counted and confirmed them.

    `at` is for reschedule: a date with its zone, or a span from now, such as 2h. `goes_on` is as the last
    answer had it.
    """

    action: BulkAction
    expected: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
    confirm: Word
    at: When | None = None
    goes_on: Word | None = None


class JobFailed(Told, frozen=True, kw_only=True):
    """A job to which it could not be done, and why."""

    id: str
    error: Phrase


class BulkDone(Told, frozen=True, kw_only=True):
    """To how many jobs it was done, could not be done, and had not to be done any more.

    `errors` are the first few. With `more`, there are jobs left. With `goes_on`, the time of one call is over: ask
    the same again with that, and it goes on without another confirmation. The numbers count from the beginning.
    """

    done: int
    failed: int
    passed_over: int
    errors: tuple[JobFailed, ...] = ()
    more: bool = False
    goes_on: str | None = None
