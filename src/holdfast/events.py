"""What happens, as typed values, emitted once. Logs, the console and metrics are subscribers."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.job import Failure, Progress
from holdfast.core.states import State

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in this process."""


@dataclass(frozen=True, slots=True)
class JobEvent(Event):
    """Something that happened to a job in this process. `attempt` counts from 1 for the run meant."""

    job_id: str
    task: str
    queue: str
    attempt: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class JobStarted(JobEvent):
    """Its handler is about to run."""

    run_at: datetime
    late: timedelta


@dataclass(frozen=True, slots=True)
class JobProgressed(JobEvent):
    """Its handler said how far it is."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class JobCompleted(JobEvent):
    """It succeeded, and the store knows."""

    took: timedelta


@dataclass(frozen=True, slots=True)
class JobRetrying(JobEvent):
    """It failed and will be tried again."""

    failure: Failure
    delay: timedelta


@dataclass(frozen=True, slots=True)
class JobSnoozed(JobEvent):
    """Its handler asked to be run later."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class JobDied(JobEvent):
    """It failed for good and is a dead letter."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class JobCancelled(JobEvent):
    """It ended as cancelled."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobReleased(JobEvent):
    """It was given back, nothing charged."""


@dataclass(frozen=True, slots=True)
class JobBlocked(JobEvent):
    """It cannot run here now."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClaimLost(JobEvent):
    """A write of this attempt was refused: the job belongs to someone else now."""


@dataclass(frozen=True, slots=True)
class WorkerEvent(Event):
    """Something that happened to a worker."""

    worker: str
    pid: int


@dataclass(frozen=True, slots=True)
class WorkerReady(WorkerEvent):
    """A child has imported its tasks, is registered and may claim. To stop it, signal its supervisor."""

    tasks: int
    concurrency: int
    store: str
    queues: tuple[str, ...] | None
    supervisor_pid: int


@dataclass(frozen=True, slots=True)
class WorkerStopping(WorkerEvent):
    """A child takes no more jobs and waits for those it has."""

    grace: float


@dataclass(frozen=True, slots=True)
class WorkerStopped(WorkerEvent):
    """A child ended as it should. `released` is how many claims went back."""

    released: int


@dataclass(frozen=True, slots=True)
class WorkerCrashed(WorkerEvent):
    """A child died."""

    evidence: str
    started: int
    released: int


@dataclass(frozen=True, slots=True)
class WorkerHung(WorkerEvent):
    """A child gave no sign of life for too long and is killed."""

    silent: float


@dataclass(frozen=True, slots=True)
class WorkerLost(WorkerEvent):
    """A worker of ours was buried by others; it starts nothing more."""


@dataclass(frozen=True, slots=True)
class WorkerFound(WorkerEvent):
    """A vanished worker of someone else was buried by us. `released` is how many claims went back."""

    released: int


@dataclass(frozen=True, slots=True)
class Drained(Event):
    """A drain has nothing left to do. `left` counts what waits for something else than a worker, by state."""

    left: Mapping[State, int]


@dataclass(frozen=True, slots=True)
class StoreAway(Event):
    """The store stopped answering; we go on trying."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreBack(Event):
    """The store answers again."""

    away: float


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber, in order; one that raises is logged and harms nobody."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with each event from now on."""
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Tell every subscriber."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                log.exception("a subscriber failed on %s", type(event).__name__)
