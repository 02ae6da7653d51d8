"""The values that travel between client, store and worker. All frozen; none holds a store."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from holdfast.core.states import Move, State


@dataclass(frozen=True, slots=True)
class NewJob:
    """A request to run a task, complete and validated, before the store has seen it.

    It runs at `run_at`, or else `delay` after the store's own now.
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


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task name and the newest payload version that is meant."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Which claim of which job: all that a fenced write needs besides the worker."""

    job_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A job as its claimer sees it. `attempt` counts the charged runs before this one."""

    job_id: str
    fence: int
    task: str
    version: int
    payload: bytes
    queue: str
    priority: int
    run_at: datetime
    attempt: int
    crashes: int
    max_attempts: int

    @property
    def ref(self) -> ClaimRef:
        """Which claim this is."""
        return ClaimRef(self.job_id, self.fence)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in an attempt, as text: the remote exception is never unpickled."""

    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ends one of its claims. `move` is one of `states.ENDINGS`.

    `delay` is for RETRY and SNOOZE, `reason` for BLOCK and CANCEL, `result` for COMPLETE.
    """

    ref: ClaimRef
    move: Move
    started_at: datetime | None = None
    delay: timedelta = timedelta()
    reason: str | None = None
    result: bytes | None = None
    failure: Failure | None = None


class Verdict(StrEnum):
    """The store's answer to a fenced write."""

    ACCEPTED = "accepted"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, as its handler says."""

    done: float
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as anyone may look at it."""

    id: str
    task: str
    version: int
    queue: str
    priority: int
    state: State
    reason: str | None
    until: datetime | None
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    fence: int
    attempt: int
    crashes: int
    max_attempts: int
    alone: bool
    cancel_requested: bool
    worker: str | None
    payload: bytes
    result: bytes | None
    error: str | None
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim in a job's history. `ended_at` is None while it lasts.

    `how` is the Move that ended it, or `crashed`, `suspected`, `vanished` for a worker's death.
    """

    fence: int
    worker: str
    started_at: datetime | None
    ended_at: datetime | None
    how: str | None
    error: str | None
    traceback: str | None


class Cancellation(StrEnum):
    """What became of a wish to cancel."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    TOO_LATE = "too_late"
