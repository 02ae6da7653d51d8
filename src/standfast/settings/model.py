"""What can be set, with its defaults."""

from datetime import timedelta

import msgspec

DEFAULT_URL = "sqlite:///standfast.db"

LONGEST_SPAN = 365 * 86_400.0
"""Seconds beyond which a span is a mistake; infinity would not even reach the worker."""

MOST_INCIDENTS = 10_000
"""Incidents that may be kept: whoever lists them reads them all."""

MOST_DEAD = 1_000_000
"""Dead jobs that may be kept where there is a bound: a store counts them up to it."""

MOST_MEGABYTES = 1_000_000

MOST_AT_ONCE = 10_000
"""Jobs that one process may run at a time; more is a mistake, for each may need a thread."""

MOST_JOBS = 10**12
"""More attempts than any process ends."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app and its workers behave. Spans are seconds.

    lease: how long a worker's claims stay valid without a beat; beat: how often it beats (a third of the lease
    unless given); grace: how long a stop waits for running jobs; hang_limit: how long a child may give no sign of
    life; look_ahead: how far ahead jobs are claimed; store_timeout: when a store call is given up; retry_for: how
    long an enqueue goes on trying while the store is away; timeout: how long a run of a task may take that says
    nothing of its own (None: for ever); max_wait: how long a due job may wait because others
    have a higher priority (None: for ever); keep_finished: how long completed and cancelled jobs are kept (None:
    for ever); keep_dead_for and keep_dead: how long dead jobs are kept, and how many, the newest (None: for ever,
    and all); recycle_age, recycle_jobs, recycle_memory: how old a worker process gets, how many attempts it ends
    and how many bytes it takes before another relieves it (None: no limit); drain_limit: how long it may then go on
    with what it has begun; name and release: of the app, to which the schedules it declares belong (None:
    MODULE:APP of its workers, and a release that is another where its schedules are); incidents_dir: where
    supervisors write incidents (None: the user's folder for such); keep_incidents, keep_incidents_for and
    keep_incidents_mb: how many of them are kept, for how long (None: for ever), and how many megabytes their
    folders may take; blocked_warning: how long a handler may block the event loop before a warning names it (None
    or 0: for ever); incident_locals: whether incidents show local variables, without what looks like a secret;
    files: the folder for the files that jobs save (None: beside a sqlite database; other stores need one), and
    files_limit: how many bytes one of them may have; metrics_dir: the
    folder in which workers inside web processes count for metrics (None: they do not); background_limit: how many
    pieces of work run in the background of a process at a time, and background_when_full: what becomes of more
    (wait, reject, enqueue).
    """

    url: str = DEFAULT_URL
    namespace: str | None = None
    lease: float = 15.0
    beat: float | None = None
    grace: float = 30.0
    hang_limit: float = 120.0
    look_ahead: float = 10.0
    safety_poll: float = 2.0
    store_timeout: float = 10.0
    retry_for: float = 0.0
    concurrency: int = 20
    timeout: float | None = None
    max_wait: float | None = 300.0
    keep_finished: float | None = 7 * 86_400.0
    keep_dead_for: float | None = None
    keep_dead: int | None = None
    recycle_age: float | None = None
    recycle_jobs: int | None = None
    recycle_memory: int | None = None
    drain_limit: float = 600.0
    name: str | None = None
    release: str | None = None
    incidents_dir: str | None = None
    keep_incidents: int = 200
    keep_incidents_for: float | None = 30 * 86_400.0
    keep_incidents_mb: int = 200
    blocked_warning: float | None = 0.2
    incident_locals: bool = False
    files: str | None = None
    files_limit: int = 1_000_000_000
    metrics_dir: str | None = None
    background_limit: int = 20
    background_when_full: str = "wait"

    @property
    def beat_every(self) -> float:
        """Seconds between two beats."""
        return self.lease / 3 if self.beat is None else self.beat

    @property
    def margin(self) -> float:
        """How long before the lease ends a worker stops trusting it."""
        return min(1.0, self.lease / 10)

    @property
    def lease_span(self) -> timedelta:
        """The lease as a span."""
        return timedelta(seconds=self.lease)


DEFAULTS = Settings()
