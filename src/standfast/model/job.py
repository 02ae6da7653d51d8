"""The values that travel between client, store and worker. All frozen; none holds a store."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from standfast.model.states import CLAIMED, WAITING, Move, State


class OnConflict(StrEnum):
    """What an enqueue does when its key is taken by another job of the same task."""

    RETURN = "return"
    REPLACE = "replace"
    RAISE = "raise"


class OnLate(StrEnum):
    """What becomes of a job whose first start comes later than it should."""

    RUN = "run"
    EXPIRE = "expire"


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A request to run a task, complete and validated, before the store has seen it.

    It runs at `run_at`, or else `delay` after the store's own now. `key` is unique among the unfinished jobs of
    its task, and for `keep_key` after a completion. It should start for the first time within `start_within` of
    its time.
    """

    id: str
    task: str
    payload: bytes
    version: int = 1
    queue: str = "default"
    priority: int = 0
    run_at: datetime | None = None
    delay: timedelta = timedelta()
    max_attempts: int = 5
    key: str | None = None
    on_conflict: OnConflict = OnConflict.RETURN
    keep_key: timedelta = timedelta()
    start_within: timedelta | None = None
    on_late: OnLate = OnLate.RUN
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but what every job asks for, which stores write in the shortest way."""
        timed_or_named = self.start_within is not None or self.key is not None or self.keep_key
        return not (timed_or_named or self.tags or self.metadata)

    def __repr__(self) -> str:  # without the payload, which may hold secrets
        return f"<NewJob {self.id} of {self.task}>"


class KnownTask(msgspec.Struct, frozen=True):
    """A task name and the newest payload version that is meant; of what is unknown, the oldest."""

    name: str
    version: int


class ClaimRef(NamedTuple):
    """Which claim of which job: all that a fenced write needs besides the worker."""

    job_id: str
    fence: int


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A job as its claimer sees it. `attempt` counts the charged runs before this one.

    `start_by` is when its first start should have been at the latest; None without a limit, and once a run was
    charged.
    """

    ref: ClaimRef
    task: str
    version: int
    payload: bytes
    queue: str
    priority: int
    run_at: datetime
    attempt: int
    crashes: int
    max_attempts: int
    start_by: datetime | None = None
    on_late: OnLate = OnLate.RUN
    metadata: Mapping[str, str] = {}

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self.ref.job_id

    @property
    def fence(self) -> int:
        """The fencing token of this claim."""
        return self.ref.fence

    def __repr__(self) -> str:
        return f"<Claim {self.ref.job_id}:{self.ref.fence} of {self.task}>"


UNREADABLE = "the stored job cannot be read"

NO_TASK = "?"
"""Stands for the name of a task, or of a queue, that cannot be read: no task and no queue has it."""


class UnreadableClaim(Claim, frozen=True, gc=False):
    """The claim of a job of which no more could be read than its id and its fence."""

    problem: str = ""


class Failure(msgspec.Struct, frozen=True):
    """What went wrong in an attempt, as text: the remote exception is never unpickled."""

    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a worker ends one of its claims. `move` is one of `states.ENDINGS`.

    `delay` is for RETRY and SNOOZE, `reason` for BLOCK, CANCEL and SNOOZE, `result` for COMPLETE, where
    `keep_result` says for how long it is kept (None: as long as the job). `log` is the end of what the attempt
    logged.
    """

    ref: ClaimRef
    move: Move
    started_at: datetime | None = None
    delay: timedelta = timedelta()
    reason: str | None = None
    result: bytes | None = None
    failure: Failure | None = None
    keep_result: timedelta | None = None
    log: str | None = None


class Verdict(StrEnum):
    """The store's answer to a fenced write."""

    ACCEPTED = "accepted"
    STALE = "stale"


NOTE_LENGTH = 200
"""Characters kept of the note of a progress."""


class Progress(msgspec.Struct, frozen=True):
    """How far a job is, as its handler says, and in a few words what it is doing."""

    done: float
    total: float | None = None
    note: str | None = None


class Job(msgspec.Struct, frozen=True):
    """A job as anyone may look at it.

    `after` is the job whose place it takes while it is blocked(replacing). A result is gone after `result_until`.
    `group`: 0; or it is a suspect of a crash, and so many suspects at most run together in a separate process.
    """

    id: str
    task: str
    version: int
    queue: str
    priority: int
    state: State
    reason: str | None
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    fence: int
    attempt: int
    crashes: int
    max_attempts: int
    group: int
    cancel_requested: bool
    worker: str | None
    payload: bytes
    result: bytes | None
    error: str | None
    progress: Progress | None
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    start_by: datetime | None = None
    on_late: OnLate = OnLate.RUN
    after: str | None = None
    result_until: datetime | None = None
    keep_key: timedelta = timedelta()

    def __repr__(self) -> str:  # without the payload, which may hold secrets
        return f"<Job {self.id} of {self.task}, {self.state}>"


class Glance(msgspec.Struct, frozen=True):
    """The little of a job that those who wait for it look at again and again."""

    state: State
    progress: Progress | None


HISTORY_FIRST = 10
"""So many claims at the beginning of a job's history are kept one by one, ..."""

HISTORY_LAST = 90
"""... and so many at its end, the present one included. Those between are folded: counted by how they ended."""

HISTORY_BATCH = 10
"""A store folds a history once for so many claims. What it shows is folded always."""


def folds_at(fence: int) -> bool:
    """Tell whether the history of a job is to be folded when this claim ends."""
    return fence > HISTORY_FIRST + HISTORY_LAST and fence % HISTORY_BATCH == 0


class Attempt(msgspec.Struct, frozen=True):
    """One claim in a job's history. `ended_at` is None while it lasts.

    `how` is the Move that ended it, or `crashed`, `suspected`, `vanished` for a worker's death. `log` is the end of
    what it logged.

    If `folded` is not 0, this stands for so many claims between the first and the last that ended in this way:
    `fence` and `ended_at` are those of the last of them, `started_at` is that of the first, and there is no worker
    and no text.
    """

    fence: int
    worker: str
    started_at: datetime | None
    ended_at: datetime | None
    how: str | None
    error: str | None
    traceback: str | None
    log: str | None = None
    folded: int = 0


class JobAction(StrEnum):
    """What people do to jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    DISCARD = "discard"
    RESCHEDULE = "reschedule"


ACTS_ON: Mapping[JobAction, frozenset[State]] = {
    JobAction.RETRY: frozenset({State.DEAD, State.SCHEDULED}),
    JobAction.CANCEL: WAITING | CLAIMED,
    JobAction.RESCHEDULE: frozenset({State.SCHEDULED, State.READY}),
    JobAction.DISCARD: frozenset({State.DEAD}),
}
"""The states of a job in which an action can be done to it."""


class Cancellation(StrEnum):
    """What became of a wish to cancel."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    TOO_LATE = "too_late"


SCHEDULE_KEY = "standfast.schedule"
"""Where the metadata of a job names the schedule that it comes from."""

PLANNED_KEY = "standfast.planned"
"""Where the metadata of a job tells the time for which it was planned."""

CHANNEL_KEY = "channel"
"""Where the metadata of a delivery names its channel."""

DELIVERY = "standfast.deliver"
"""The task of deliveries."""

DELIVERIES = "standfast.alerts"
"""The queue of deliveries."""


def channel_of(task: str, metadata: Mapping[str, str]) -> str | None:
    """Return the channel through which a job delivers a notice, if it does."""
    return metadata.get(CHANNEL_KEY) if task == DELIVERY else None


def schedule_of(metadata: Mapping[str, str]) -> str | None:
    """Return the schedule that a job comes from, if it comes from one."""
    return metadata.get(SCHEDULE_KEY)


def planned_of(metadata: Mapping[str, str]) -> datetime | None:
    """Return the time for which a schedule has planned a job; None as well where someone else wrote that in."""
    try:
        planned = datetime.fromisoformat(metadata[PLANNED_KEY])
    except (KeyError, ValueError):
        return None
    return None if planned.utcoffset() is None else planned


def without_provenance(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what else was noted about a job."""
    return {name: value for name, value in metadata.items() if name not in {SCHEDULE_KEY, PLANNED_KEY}}
