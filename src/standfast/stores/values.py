"""The values that the verbs of a store speak in.

How a worker is, as it says with each beat. Stores keep its last word as a short text, and do not read it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from standfast.model.job import DELIVERIES, Cancellation, Claim, ClaimRef, Job, KnownTask
from standfast.model.records import Record
from standfast.model.states import CLAIMED, State


class Vitals(msgspec.Struct, frozen=True):
    """How a worker was when it last beat.

    memory: resident bytes of its process, the host's for a worker inside one; None where that cannot be read.
    running, slots: how many of its jobs run, of so many that may at a time.
    lag: how many seconds its event loop was late of late; None before it could tell.
    pulse_age: seconds since its process gave its last sign of life.
    done: how many attempts have ended in it since it began.
    waiting: how many of its jobs wait for the results of others, where it has no place left.
    told: for how many seconds jobs that go on have been told to end because they were cancelled, by their ids.
    """

    memory: int | None = None
    running: int = 0
    slots: int = 1
    lag: float | None = None
    pulse_age: float = 0.0
    done: int = 0
    waiting: int = 0
    told: Mapping[str, float] = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Vitals)


def write_vitals(vitals: Vitals | None) -> str | None:
    """Return vitals as they are stored; None is no news."""
    return None if vitals is None else _encoder.encode(vitals).decode()


def read_vitals(text: str | bytes | None) -> Vitals | None:
    """Return what is stored; None for what cannot be read. What a later release says besides is passed over."""
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


# What a worker asks a store for, and what it is given: the values of `claim`.

T = TypeVar("T")


class ClaimRequest(msgspec.Struct, frozen=True):
    """What a worker asks for: at most `limit` due jobs, and `ahead_limit` that become due within `look_ahead`.

    `queues` are tried in the order given; None means every queue by name, each in its turn the first, so that none
    starves. `shares`, one for each of the queues, are how many due jobs each gives before any gives more; what is
    left of `limit` after that goes to the queues in the order given.

    Within a queue a higher priority goes first. But of the due jobs that one queue gives in this call, every second
    place (the first one in odd visits) is for those that have waited for half of `max_wait` or longer, of whatever
    priority: the priorities that have such jobs take turns, the oldest job of each, from the lowest up, and the
    first turn moves on from visit to visit. So nothing starves, and an urgent job still need not wait for a long
    backlog. None lets priority alone decide.

    `call` numbers the worker's claims upward. `adopt` names blocked(no_worker) tasks that this worker knows: their
    due jobs are given as ready ones are, and those that are not given stay blocked. `group` takes due suspects of
    that very group (see `core.crash`) and nothing else; 0 leaves suspects where they are. Suspects that it adopts
    are blocked no more even so: the next beat tells of them. `closed` are queues that give nothing in this call, as
    if they were paused; `closed_tasks` are tasks of which nothing is given but what is adopted, and whose jobs do
    not count for `next_due_at`. They are passed over one by one; where that is only so many a call, others begin
    further on.

    `unknown` are tasks that this worker does not know, none of them closed, each from a version on: this call makes
    their due jobs blocked(no_worker), as many at once as the store likes, and gives what is behind them. Of very
    many jobs to be adopted a store may look at some thousands, and give the first of those.
    """

    worker: str
    call: int
    limit: int
    queues: tuple[str, ...] | None = None
    shares: tuple[int, ...] | None = None
    max_wait: timedelta | None = None
    look_ahead: timedelta = timedelta()
    ahead_limit: int = 0
    adopt: tuple[KnownTask, ...] = ()
    group: int = 0
    closed: tuple[str, ...] = ()
    closed_tasks: tuple[str, ...] = ()
    unknown: tuple[KnownTask, ...] = ()

    def in_turn(self, queues: Sequence[str]) -> list[str]:
        """Return the open queues in the order in which this call tries them."""
        return _turned(queues, self.call - 1 if self.queues is None else 0)

    def portions(self, queues: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield which of the open queues gives next, and how many due jobs at most: shares first, then the rest."""
        if self.queues is not None and self.shares is not None:
            shares = dict(zip(self.queues, self.shares, strict=True))
            yield from ((queue, shares[queue]) for queue in queues)
        yield from ((queue, self.limit) for queue in queues)

    def visit(self, queues: Sequence[str]) -> int:
        """Return which visit of each of the open queues this call is, as far as they take turns in being the first.

        Where they do, a queue sees every so manieth call only, and by the number of the call alone it might never
        have its places for those that have waited long.
        """
        return self.call if self.queues is not None else (self.call - 1) // (len(queues) or 1) + 1


def priorities_in_turn(priorities: Iterable[int], visit: int) -> list[int]:
    """Return priorities in the order in which their jobs that have waited long take turns in this visit."""
    return _turned(sorted(priorities), (visit - 1) // 2)


def _turned(line: Sequence[T], by: int) -> list[T]:
    first = by % len(line) if line else 0
    return [*line[first:], *line[:first]]


class ClaimAnswer(msgspec.Struct, frozen=True):
    """What a claim brought, by the store's time `now`.

    `next_due_at` is when the next unclaimed job of these queues becomes due, or became due if more is left; blocked
    ones do not count.
    """

    jobs: tuple[Claim, ...]
    now: datetime
    next_due_at: datetime | None = None


# Who works, and what keeps its lease: the values of `register` and `beat`.

BURIED_KEPT = timedelta(days=1)
"""How long it is remembered that a worker was buried, so that a late registration cannot raise it."""


class LeaseClock(Enum):
    """By which clock a store measures how long ago a beat was."""

    BOOT = "boot"
    """The machine's own since it booted, which nobody can set."""
    SERVER = "server"
    """The server's, which somebody may set. A step forward makes every beat look old, until the next one. A beat
    that seems to come from the future, after a step back, counts from when someone else beats."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker incarnation as it registers. `supervisor` groups the children of one parent."""

    id: str
    supervisor: str
    host: str
    pid: int
    lease: timedelta
    queues: tuple[str, ...] | None = None
    concurrency: int = 1

    @property
    def is_courier(self) -> bool:
        """Whether it does nothing but deliver notices, as supervisors do for some seconds: it is not counted on."""
        return self.queues == (DELIVERIES,)


class WorkerBeat(msgspec.Struct, frozen=True):
    """One worker is alive; its claim calls up to `closed_call` are over, and of those it still has `held`.

    `polled_at` is when, by the store's time, it last looked for work without being called, and `vitals` how it is:
    its last word counts, and None is no news of that.
    """

    worker: str
    closed_call: int = 0
    held: frozenset[ClaimRef] = frozenset()
    polled_at: datetime | None = None
    vitals: Vitals | None = None


class Turn(msgspec.Struct, frozen=True):
    """A worker's place among the `of` living ones that serve the same queues, by their ids; the first has rank 0.

    `polled_at` is when any of them last looked for work without being called, as far as their beats have told.
    """

    rank: int
    of: int
    polled_at: datetime | None = None


class DueSuspects(msgspec.Struct, frozen=True, order=True):
    """So many suspects of one group are due in a queue, and unclaimed."""

    queue: str
    group: int
    jobs: int


class BeatAnswer(msgspec.Struct, frozen=True):
    """What a beat brings back.

    accepted: workers whose lease is renewed; any other was buried or condemned and must stop.
    revoked: claims whose job was asked to cancel.
    replaced: claims whose job is to give way to another with its key: back with them if they have not started.
    paused: the paused queues: what is held of them and not started must go back.
    unnamed: workers that own claims of closed calls which they did not name: call `reconcile` for each.
    expired: workers without a beat for longer than their lease, or already condemned: `condemn`, then `bury`. None
        of those who beat in this call, accepted or not.
    next_expiry: how long until the next lease of someone else, not yet expired, runs out; None without anyone.
    blocked: what waits as blocked(no_worker).
    suspects: which suspects are due and unclaimed in queues that are not paused.
    turns: the place of each accepted worker among its like; those who are expired or condemned do not count.
    record_due_at: the earliest `due_at` of all records.
    """

    accepted: frozenset[str]
    now: datetime
    revoked: Mapping[str, tuple[ClaimRef, ...]] = {}
    replaced: Mapping[str, tuple[ClaimRef, ...]] = {}
    paused: frozenset[str] = frozenset()
    unnamed: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()
    next_expiry: timedelta | None = None
    blocked: frozenset[KnownTask] = frozenset()
    suspects: frozenset[DueSuspects] = frozenset()
    turns: Mapping[str, Turn] = {}
    record_due_at: datetime | None = None


# What anyone may look at in a store: the values of its views.


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
    """One page of jobs, newest id first, and where it goes on: `next` is the `before` of the next page.

    There may be such a page though this one is short, or empty: then the look stopped at the end of its span.
    """

    jobs: tuple[Job, ...]
    next: str | None = None


class KeyHolder(NamedTuple):
    """The job that has a key of a task."""

    task: str
    key: str | None
    job_id: str
    state: State


class JobOutcome(msgspec.Struct, frozen=True):
    """What became of a job that was to be changed.

    `state` is where it was, if the store tells: always if it was not changed, unless there is no such job. `holder` is
    the job that has its key, where that is why it was not changed.
    """

    changed: bool
    state: State | None = None
    holder: KeyHolder | None = None

    @property
    def cancellation(self) -> Cancellation:
        """What became of a wish to cancel it."""
        if not self.changed:
            return Cancellation.TOO_LATE
        return Cancellation.REQUESTED if self.state in CLAIMED else Cancellation.CANCELLED


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


# How a search that looks at some jobs only becomes a page, the same in every store.


def within(which: JobFilter, end: Sequence[str]) -> JobFilter:
    """Return the filter that stops where a look ends: at the last job to look at, before the one beyond it."""
    return replace(which, after=end[1]) if len(end) > 1 else which


def page_of(which: JobFilter, found: tuple[Job, ...], end: Sequence[str] = ()) -> JobPage:
    """Return what was found, with where to go on: after a full page its last job, else the last one looked at."""
    if len(found) >= which.limit > 0:
        return JobPage(found, found[-1].id)
    return JobPage(found, end[0] if len(end) > 1 else None)
