"""What anyone may look at in a store: the values of its views."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from standfast.core.job import Job
from standfast.core.record import Record
from standfast.core.states import CLAIMED, State
from standfast.core.vitals import Vitals
from standfast.store.beating import WorkerInfo


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list, newest first; `before` is the id after which the next page starts.

    Ids are greater than `after` and less than `before`. They go by time: `ids.first_id_at` has that of a moment.
    `tags` and `metadata` must all be there. `error` is a part of the last error's text, in any case of letters, of
    a job that did not complete. `worker` is who has the job in hand.
    """

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    limit: int = 50
    before: str | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    error: str | None = None
    after: str | None = None
    worker: str | None = None

    def matches(self, job: Job) -> bool:
        """Tell whether a job is among those that are meant, on whatever page."""
        return (
            (not self.states or job.state in self.states)
            and (self.worker is None or job.state in CLAIMED)
            and not (self.error and job.state is State.COMPLETED)
            and self.queue in {None, job.queue}
            and self.task in {None, job.task}
            and self.includes(job.id)
            and self.worker in {None, job.worker}
            and self.key in {None, job.key}
            and set(self.tags) <= set(job.tags)
            and self.metadata.items() <= job.metadata.items()
            and (self.error or "").lower() in (job.error or "").lower()
        )

    @property
    def possible_states(self) -> tuple[State, ...]:
        """The states in which such a job can be."""
        can_be = set(self.states or State)
        if self.worker is not None:
            can_be &= CLAIMED
        if self.error:
            can_be.discard(State.COMPLETED)
        return tuple(state for state in State if state in can_be)

    @property
    def passes_over(self) -> bool:
        """Whether more is asked than any walk along jobs knows: of a state, a key, a tag, a worker."""
        return bool(self.queue or self.task or self.metadata or self.error or self.tags[1:])

    def includes(self, job_id: str) -> bool:
        """Tell whether an id is between `after` and `before`."""
        return (self.before is None or job_id < self.before) and (self.after is None or job_id > self.after)


class JobPage(msgspec.Struct, frozen=True):
    """Jobs that a search found, newest id first, and where it goes on: `next` is the `before` of the next page.

    There may be such a page though this one is short, or empty: then the search stopped at the end of its span.
    """

    jobs: tuple[Job, ...]
    next: str | None = None


class Queue(msgspec.Struct, frozen=True):
    """A queue and what is in it, by state (states that do not occur are left out)."""

    name: str
    paused_at: datetime | None
    states: Mapping[State, int]


class Worker(msgspec.Struct, frozen=True):
    """A registered worker as anyone may look at it. `beat_age` is the time since its last beat.

    `vitals` is how it was then; None where no beat has told, as those of older releases do not.
    """

    info: WorkerInfo
    started_at: datetime
    beat_age: timedelta
    condemned: bool
    held: int
    running: int
    vitals: Vitals | None = None

    @property
    def is_live(self) -> bool:
        """Whether its lease holds as far as anyone can tell."""
        return not self.condemned and self.beat_age <= self.info.lease

    def serves(self, queue: str) -> bool:
        """Tell whether it takes jobs of a queue."""
        return self.info.queues is None or queue in self.info.queues


class QueueAge(msgspec.Struct, frozen=True):
    """A queue with due jobs that nobody has claimed: since when the oldest of them is due."""

    name: str
    oldest_due_at: datetime
    paused_at: datetime | None = None


class UnknownAge(msgspec.Struct, frozen=True, order=True):
    """Due jobs of one queue, task and payload version that wait as blocked(no_worker): the time of the oldest."""

    queue: str
    task: str
    version: int
    oldest_due_at: datetime


UNKNOWN_LOOKED_AT = 100
"""Of so many blocked jobs of one task and version the oldest is found, where an index cannot tell it."""


class QueueAges(msgspec.Struct, frozen=True):
    """How old queues are by the store's time `now`, by name; `unknown` are jobs whose task no worker knew."""

    now: datetime
    queues: tuple[QueueAge, ...] = ()
    unknown: tuple[UnknownAge, ...] = ()


class Situation(msgspec.Struct, frozen=True):
    """All that is needed to say why a job is where it is."""

    job: Job
    now: datetime
    queue_paused_at: datetime | None
    workers: tuple[Worker, ...]
    ahead: int
    """How many due jobs of its queue go first."""


class DueRecords(msgspec.Struct, frozen=True):
    """Records that are due by the store's time `now`, the longest due first."""

    now: datetime
    records: tuple[Record, ...]
