"""What happens, as typed values, emitted once. Logs, the console and metrics are subscribers."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from standfast.model.job import Failure, Progress
from standfast.model.records import Decision
from standfast.model.states import State

log = logging.getLogger(__name__)


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened in this process."""


class Traced(Event, frozen=True, kw_only=True):
    """Something that belongs to a trace, where the app makes traces."""

    trace_id: str | None = None


class JobEvent(Traced, frozen=True):
    """Something that happened to a job in this process. `attempt` counts from 1 for the run meant."""

    job_id: str
    task: str
    queue: str
    attempt: int
    max_attempts: int


class JobStarted(JobEvent, frozen=True):
    """Its handler is about to run."""

    run_at: datetime
    late: timedelta


class JobLate(JobEvent, frozen=True):
    """It comes to its first start `late`, after `start_by`: now it expires, or runs all the same."""

    late: timedelta
    start_by: datetime
    expires: bool


class JobProgressed(JobEvent, frozen=True):
    """Its handler said how far it is."""

    progress: Progress


class JobCompleted(JobEvent, frozen=True):
    """It succeeded, and the store knows."""

    took: timedelta


class JobRetrying(JobEvent, frozen=True):
    """It failed and will be tried again."""

    failure: Failure
    delay: timedelta


class JobSnoozed(JobEvent, frozen=True):
    """Its handler asked to be run later; where it waits for something, `reason` says for what."""

    delay: timedelta
    reason: str | None = None


class JobDied(JobEvent, frozen=True):
    """It failed for good and is a dead letter."""

    failure: Failure


class JobCancelled(JobEvent, frozen=True):
    """It ended as cancelled."""

    reason: str


class JobReleased(JobEvent, frozen=True):
    """It was given back, nothing charged."""


class JobBlocked(JobEvent, frozen=True):
    """It cannot run here now. `version` is that of its payload."""

    reason: str
    version: int


class ClaimLost(JobEvent, frozen=True):
    """A write of this attempt was refused: the job belongs to someone else now."""


class WorkerEvent(Event, frozen=True):
    """Something that happened to a worker."""

    worker: str
    pid: int


class WorkerReady(WorkerEvent, frozen=True):
    """A child has imported its tasks, is registered and may claim. To stop it, signal its supervisor.

    `weights` are those of the `queues`; without, they are served in the order given.
    """

    tasks: int
    concurrency: int
    store: str
    queues: tuple[str, ...] | None
    weights: tuple[int, ...] | None
    supervisor_pid: int


class WorkerRecycling(WorkerEvent, frozen=True):
    """A child is to be replaced, for this reason: worker `successor` starts, and takes its place once it works."""

    reason: str
    successor: str


class WorkerNotRecycled(WorkerEvent, frozen=True):
    """A child stays, as the one that was to replace it failed; tried again after `pause` seconds, if at all."""

    error: str
    pause: float | None


class WorkerDraining(WorkerEvent, frozen=True):
    """A child is to leave once what it runs has ended, as somebody ordered it, and none takes its place."""


class WorkerDrained(WorkerEvent, frozen=True):
    """A child that was drained is gone, and its place stays empty.

    `places` is how many its supervisor still keeps filled; with none left it ends.
    """

    places: int


class WorkerStopping(WorkerEvent, frozen=True):
    """A child takes no more jobs and waits for those it has."""

    grace: float


class WorkerStopped(WorkerEvent, frozen=True):
    """A child ended as it should. `released` is how many claims went back."""

    released: int


class WorkerCrashed(WorkerEvent, frozen=True):
    """A child died."""

    evidence: str
    started: int
    released: int


class WorkerHung(WorkerEvent, frozen=True):
    """A child gave no sign of life for too long and is killed; where it is a host, nobody beats for it any more."""

    silent: float
    killed: bool = True


class WorkerLost(WorkerEvent, frozen=True):
    """The store does not know a worker of ours any more: others buried it, say. It starts nothing more."""


class WorkerFound(WorkerEvent, frozen=True):
    """A vanished worker of someone else was buried by us. `released` is how many claims went back."""

    released: int


class StopStage(StrEnum):
    """How far the stop of a host is: in this order."""

    CLAIMING = "claiming"
    """It takes no more jobs, and gives back those that have not started."""
    TELLING = "telling"
    """Running handlers are told: their cancel tokens are set."""
    WAITING = "waiting"
    """They are waited for."""
    RELEASING = "releasing"
    """What they came to, and what they have saved, is written; the others are given back."""
    CLOSING = "closing"
    """What the app has set up is torn down, and the store let go."""


class HostReady(WorkerEvent, frozen=True):
    """The worker inside this process is registered, and works. `beater_pid` is the process that beats for it."""

    tasks: int
    concurrency: int
    store: str
    beater_pid: int


class HostStopping(WorkerEvent, frozen=True):
    """The worker inside this process stops: this `stage` is reached, and so many jobs are `running`."""

    stage: StopStage
    running: int


class HostStopped(Event, frozen=True):
    """A host has stopped. `running` handlers go on: they are given back when their process is gone."""

    running: int


class BeaterLost(Event, frozen=True):
    """The process that beats for the worker in this one is gone; another is started after `pause` seconds."""

    reason: str
    pause: float


class LoopBlocked(Event, frozen=True):
    """Code that does not `await` kept the event loop of a worker from turning, for so many seconds at least.

    `place` is its file and line. It was noticed there `count` times since it was last told. Where `interpreter` is
    true, no other thread could run either. `task` and `job_id` are empty where it is not known whose code it is.
    """

    seconds: float
    place: str
    task: str = ""
    job_id: str = ""
    count: int = 1
    interpreter: bool = False


class WorkerDeadlocked(Event, frozen=True):
    """All `places` of a worker process are taken by jobs that wait for results which only it could bring about.

    `task` and `job_id` are of one that waits, `waits_for` is the task of what is waited for. Told once.
    """

    task: str
    job_id: str
    waits_for: str
    places: int


class Drained(Event, frozen=True):
    """A drain has nothing left to do. `left` counts what waits for something else than a worker, by state."""

    left: Mapping[State, int]


class ScheduleEvent(Event, frozen=True):
    """Something that happened to a schedule."""

    schedule: str


class ScheduleFired(ScheduleEvent, frozen=True):
    """A job was enqueued for its planned time."""

    planned: datetime
    job_id: str


class ScheduleMissed(ScheduleEvent, frozen=True):
    """Nobody was there at a planned time, or at `count` of them in a row. With a job, it is caught up."""

    planned: datetime
    count: int
    job_id: str | None
    note: str


class ScheduleSkipped(ScheduleEvent, frozen=True):
    """A planned time, or `count` of them in a row, was not fired, or not yet, as the schedule itself says."""

    planned: datetime
    count: int
    decision: Decision
    note: str


class SchedulePaused(ScheduleEvent, frozen=True):
    """It paused itself, because a job of it is dead."""

    why: str


class ScheduleDeclared(ScheduleEvent, frozen=True):
    """What code declares was brought into the store: it was `added`, `changed` or `retired`."""

    what: str
    words: str


class ScheduleForeign(ScheduleEvent, frozen=True):
    """Code declares a schedule whose name another has that was made at run time, or by another app."""


class ScheduleShared(ScheduleEvent, frozen=True):
    """Workers of another `release` that live declare it, and this one does not.

    It stays until they are gone where `app` has no name of its own: they may be of another service with the same
    MODULE:APP. Otherwise it was retired, by the release `retired_by`.
    """

    app: str
    release: str
    retired_by: str | None = None


class ReleaseOlder(Event, frozen=True):
    """This release is older than one whose workers live: what it declares is left as it is in the store."""

    release: str
    newer: str


class WindowEvent(Event, frozen=True):
    """Something about the windows of a queue or a task: `about` is which of the two, and `name` whose."""

    about: str
    name: str


class WindowNear(WindowEvent, frozen=True):
    """A window begins soon, and `running` jobs of this worker are asked to finish."""

    begins_at: datetime
    ends_at: datetime
    reason: str | None
    running: int


class WindowBegan(WindowEvent, frozen=True):
    """A window is on: nothing starts until it ends. `running` jobs of this worker have not finished."""

    begins_at: datetime
    ends_at: datetime
    reason: str | None
    running: int


class WindowEnded(WindowEvent, frozen=True):
    """A window is over: what had to wait starts now."""


class WindowDeclared(WindowEvent, frozen=True):
    """What code declares is told in the store: windows were `added`, `changed` or `retired`."""

    what: str
    words: str


class LimitChanged(Event, frozen=True):
    """`limit` attempts may run at a time in this process from now on, `before` that another number could.

    `about` is whose limit it is: that of a gate, a queue or a task, which has a `name`, or of the whole worker.
    """

    about: str
    name: str
    limit: int
    before: int
    reason: str


class AlertEvent(Event, frozen=True):
    """Something about an alert: the rule that is broken, who breaks it, how bad that is, and what is said of it."""

    rule: str
    subject: str
    severity: str
    says: str


class AlertFired(AlertEvent, frozen=True):
    """A rule is broken. Who is told of it, and when, is another matter."""


class AlertResolved(AlertEvent, frozen=True):
    """It is broken no more."""


class DeadRemoved(Event, frozen=True):
    """So many dead jobs were removed, the oldest, because of a setting: `keep_dead_for` or `keep_dead`.

    `keep` is its value: for how many seconds each is kept, or how many are.
    """

    jobs: int
    setting: str
    keep: float


class StoreAway(Event, frozen=True):
    """The store stopped answering; we go on trying."""

    error: str


class StoreBack(Event, frozen=True):
    """The store answers again."""

    away: float


class MetricsServed(Event, frozen=True):
    """A supervisor serves its metrics there."""

    url: str


Subscriber = Callable[[Event], None]
Wants = Callable[[type[Event]], bool]


class Events:
    """Hands each event to every subscriber, in order; one that raises is logged and harms nobody."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Subscriber, Wants]] = []
        self._hearers: dict[type[Event], list[Subscriber]] = {}
        """Who hears of a kind, for the kinds that were asked for so far."""

    def subscribe(self, subscriber: Subscriber, wants: Wants = lambda _: True) -> None:
        """Call `subscriber` with each event from now on, but for the kinds that it does not want."""
        self._subscribers.append((subscriber, wants))
        self._hearers = {}

    def heard(self, kind: type[Event]) -> bool:
        """Tell whether anybody wants this kind: what nobody hears need not be said."""
        return bool(self._hearers_of(kind))

    def emit(self, event: Event) -> None:
        """Tell every subscriber that wants to hear of it."""
        for subscriber in self._hearers_of(type(event)):
            try:
                subscriber(event)
            except Exception:
                log.exception("a subscriber failed on %s", type(event).__name__)

    def _hearers_of(self, kind: type[Event]) -> list[Subscriber]:
        hearers = self._hearers.get(kind)
        if hearers is None:
            hearers = self._hearers[kind] = [subscriber for subscriber, wants in self._subscribers if wants(kind)]
        return hearers
