"""One job, with all that is known of it, and what can be done with it."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from standfast.core.job import OnLate
from standfast.dashboard.shapes.incidents import IncidentRow
from standfast.dashboard.shapes.jobs import JobRow
from standfast.dashboard.shapes.locks import LockSeen
from standfast.dashboard.shapes.tasks import ParameterSeen
from standfast.dashboard.shapes.values import TextSeen, ValueSeen, WrittenSeen
from standfast.dashboard.shapes.words import Arguments, NewId, QueueName, Told, When, WithId, Word
from standfast.phrases import Phrase


class WhichJob(WithId, frozen=True, kw_only=True):
    """A job, by its id or by the last characters of it."""


class CancelAsked(WhichJob, frozen=True, kw_only=True):
    """Which job to cancel; with `kill` one that runs in a process of its own is ended with it."""

    kill: bool = False


class AttemptSeen(Told, frozen=True, kw_only=True):
    """One claim of a job. `took` is in seconds; `how` is null while it lasts.

    Of a long history the claims between the first and the last are counted by how they ended: `folded` is 0, or how
    many of them this stands for.
    """

    fence: int
    worker: str
    started: bool
    started_at: datetime | None
    ended_at: datetime | None
    took: float | None
    how: str | None
    error: str | None
    traceback: TextSeen | None
    log: TextSeen | None
    folded: int = 0


class Station(Told, frozen=True, kw_only=True):
    """One point in the life of a job.

    `what` is enqueued, due, started, or how a claim ended, or the state in which it ended, or now; or folded, of
    claims that are not told one by one: `detail` says how many.
    """

    at: datetime
    what: str
    fence: int | None = None
    worker: str | None = None
    detail: str | None = None


class WhySeen(Told, frozen=True, kw_only=True):
    """Why a job is where it is."""

    cause: str
    says: Phrase
    remedy: Phrase | None
    notes: tuple[Phrase, ...]
    text: str


class JobSeen(Told, frozen=True, kw_only=True):
    """A job with its story. `can` names the operations that make sense in its state.

    `parameters` are those of its task, where workers have told of them; `edited_from` is the dead job of which it
    is the corrected copy. `trace_id` is that of the trace that it carries.
    """

    now: datetime
    row: JobRow
    version: int
    crashes: int
    group: int
    after: str | None
    start_by: datetime | None
    on_late: OnLate
    planned_at: datetime | None
    metadata: dict[str, str]
    args: dict[str, ValueSeen]
    args_problem: Phrase | None
    result: ValueSeen | None
    result_until: datetime | None
    error: TextSeen | None
    attempts: tuple[AttemptSeen, ...]
    timeline: tuple[Station, ...]
    why: WhySeen
    written: WrittenSeen
    locks: tuple[LockSeen, ...]
    incidents: tuple[IncidentRow, ...]
    forgotten_incidents: tuple[str, ...]
    can: tuple[str, ...]
    parameters: tuple[ParameterSeen, ...] | None = None
    edited_from: str | None = None
    cloned_from: str | None = None
    trace_id: str | None = None


class JobDone(Told, frozen=True, kw_only=True):
    """What became of a job; `job` is the new one, where there is one."""

    id: str
    answer: str
    job: str | None = None


class RescheduleAsked(WithId, frozen=True, kw_only=True):
    """When a job is to run: a date with its zone, or a span from now, such as 2h."""

    at: When


class SignalAsked(WithId, frozen=True, kw_only=True):
    """Which signal to send, and what with it. With a `token` a repetition is the same signal."""

    name: Word
    data: Any = None
    token: Word | None = None


class CloneAsked(WithId, frozen=True, kw_only=True):
    """A new job like this one, but for what is said here. Secret arguments that are not given are kept.

    `args` are all arguments that are not secret; null leaves them as they are. `new_id`, a UUIDv7 made by whoever
    asks, makes a repetition harmless.
    """

    args: Arguments | None = None
    queue: QueueName | None = None
    at: When | None = None
    priority: Annotated[int, msgspec.Meta(ge=-32_768, le=32_767)] | None = None
    new_id: NewId | None = None


class EditAsked(WithId, frozen=True, kw_only=True):
    """A dead job is to be tried again with these arguments; masked secrets that stay keep their stored value."""

    args: Arguments
