"""The rows of the memory store. Mutable, and never handed out: `view` makes the frozen value for others."""

from collections import ChainMap
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial, wraps
from itertools import count
from operator import attrgetter
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from standfast.model.clock import Clock
from standfast.model.crash import group_limit
from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, Attempt, Claim, ClaimRef, Job, NewJob, Progress
from standfast.model.memos import Save, signal_prefix
from standfast.model.records import Fire, FireCause, Kind, Record
from standfast.model.states import CLAIMED, FINAL, Move, Reason, State, settle
from standfast.stores.refusals import makes_way, no_such_job
from standfast.stores.rows import DAMAGES, later, unreadable_claim, unreadable_job
from standfast.stores.values import Vitals, Worker, WorkerInfo
from standfast.stores.verb import Access, Steps, Verb


@dataclass(slots=True)
class ClaimRow:
    """One claim in a job's history. `by_finish`: its worker ended it, so a repeated finish is accepted."""

    fence: int
    worker: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    how: str | None = None
    error: str | None = None
    traceback: str | None = None
    log: str | None = None
    folded: int = 0
    by_finish: bool = False

    def view(self) -> Attempt:
        """Return what others may see."""
        return Attempt(*(getattr(self, name) for name in Attempt.__struct_fields__))


@dataclass(frozen=True, slots=True)
class MemoRow:
    """A memo, and by which save of which claim it was written; those of others, signals, come before all."""

    body: bytes
    fence: int = 0
    number: int = 0


@dataclass(slots=True)
class JobRow:
    """A job. It is stored as SCHEDULED until claimed; READY is what that is called once its time has come.

    `after` and `replaced_by` are the two ends of one tie: the claimed job for whose end this one waits as
    blocked(replacing), and the job that waits so for the end of this one.
    """

    new: NewJob
    arrival: int
    created_at: datetime
    run_at: datetime
    start_by: datetime | None = None
    state: State = State.SCHEDULED
    reason: str | None = None
    finished_at: datetime | None = None
    fence: int = 0
    attempt: int = 0
    crashes: int = 0
    group: int = 0
    cancel_requested: bool = False
    worker: str | None = None
    call: int = 0
    result: bytes | None = None
    result_until: datetime | None = None
    error: str | None = None
    progress: Progress | None = None
    after: str | None = None
    replaced_by: str | None = None
    claims: list[ClaimRow] = field(default_factory=list)
    memos: dict[str, MemoRow] = field(default_factory=dict)

    @classmethod
    def accepted(cls, new: NewJob, arrival: int, now: datetime) -> "JobRow":
        """Return a new job as it waits for its time."""
        run_at = later(now, new.delay) if new.run_at is None else new.run_at
        start_by = None if new.start_within is None else later(run_at, new.start_within)
        return cls(new, arrival, now, run_at, start_by)

    @property
    def ref(self) -> ClaimRef:
        """The present claim, or the last one."""
        return ClaimRef(self.new.id, self.fence)

    @property
    def last_chance(self) -> bool:
        """Whether it was marked as running and must never start again."""
        return self.new.max_attempts == 1 and self.state is State.RUNNING

    @property
    def order(self) -> tuple[int, datetime, int]:
        """Which job goes first among the due ones of a queue."""
        return (-self.new.priority, self.run_at, self.arrival)

    def state_at(self, now: datetime) -> State:
        """Return the state as it is at a time."""
        due = self.state is State.SCHEDULED and self.run_at <= now
        return State.READY if due else self.state

    def has_key(self, now: datetime) -> bool:
        """Tell whether its key, if it was the last to get it, is taken."""
        if self.state is State.COMPLETED and self.finished_at is not None:
            return later(self.finished_at, self.new.keep_key) > now
        return self.state not in FINAL

    def has_stale_result(self, now: datetime) -> bool:
        """Tell whether it has a result whose time is over."""
        return self.result is not None and self.result_until is not None and self.result_until <= now

    def is_over(self, now: datetime, age: timedelta) -> bool:
        """Tell whether it completed or was cancelled that long ago, and no key of it is kept."""
        if self.finished_at is None or self.state not in FINAL or self.state is State.DEAD:
            return False
        return self.finished_at + age <= now and not self.has_key(now)

    def is_claim_of(self, worker: str) -> bool:
        """Tell whether the worker has this job."""
        return self.state in CLAIMED and self.worker == worker

    def is_claim(self, worker: str, ref: ClaimRef) -> bool:
        """Tell whether this very claim is the valid one: the fence of every fenced write."""
        return self.is_claim_of(worker) and self.fence == ref.fence

    def was_finished(self, worker: str, ref: ClaimRef) -> bool:
        """Tell whether the worker itself ended that claim earlier."""
        return any(row.fence == ref.fence and row.worker == worker and row.by_finish for row in self.claims)

    def give_to(self, worker: str, call: int) -> Claim:
        """Make it a claim of the worker."""
        self.state, self.reason = State.HELD, None
        self.fence += 1
        self.worker, self.call = worker, call
        self.claims.append(ClaimRow(self.fence, worker))
        if self.fence > HISTORY_FIRST + HISTORY_LAST:
            self._fold()
        try:
            return self._claim()
        except DAMAGES as error:
            return unreadable_claim(self.new.id, self.fence, self.new.queue, error)

    def _fold(self) -> None:
        """Count the claims between the first and the last by how they ended."""
        kept: list[ClaimRow] = []
        kinds: dict[str | None, ClaimRow] = {}
        for row in self.claims:
            if HISTORY_FIRST < row.fence <= self.fence - HISTORY_LAST:
                kind = kinds.setdefault(row.how, ClaimRow(row.fence, "", how=row.how))
                kind.fence, kind.ended_at = row.fence, row.ended_at
                kind.started_at = min(filter(None, (kind.started_at, row.started_at)), default=None)
                kind.folded += row.folded or 1
            else:
                kept.append(row)
        self.claims = sorted([*kept, *kinds.values()], key=attrgetter("fence"))

    def _claim(self) -> Claim:
        new = self.new
        # A job whose time was moved past its limit, by a snooze or a requeue, was decided to start later.
        can_be_late = self.attempt == 0 and self.start_by is not None and self.run_at <= self.start_by
        return Claim(
            ref=self.ref,
            task=new.task,
            version=new.version,
            payload=new.payload,
            queue=new.queue,
            priority=new.priority,
            run_at=self.run_at,
            attempt=self.attempt,
            crashes=self.crashes,
            max_attempts=new.max_attempts,
            start_by=self.start_by if can_be_late else None,
            on_late=new.on_late,
            metadata=new.metadata,
        )

    def settle(self, move: Move) -> Move:
        """Return the move to record for an ending of the present claim."""
        replaced = self.replaced_by is not None
        return settle(move, cancel_requested=self.cancel_requested, replaced=replaced, last_chance=self.last_chance)

    def close_claim(self, now: datetime, how: str, error: str | None = None) -> ClaimRow:
        """Write the end of the present claim into the history."""
        claim = self.claims[-1]
        claim.ended_at, claim.how, claim.error = now, how, error
        return claim

    def wait(self, run_at: datetime, reason: str | None = None) -> None:
        """Let it wait for its time, claimed by nobody."""
        self.run_at = run_at
        self._leave_worker(State.SCHEDULED, reason)

    def write_down(self, save: Save) -> None:
        """Write memos, but for those that something later was written over."""
        for memo in save.memos:
            old = self.memos.get(memo.name)
            if old is None or (old.fence, old.number) < (save.ref.fence, save.number):
                self.memos[memo.name] = MemoRow(memo.body, save.ref.fence, save.number)

    def has_signal(self, name: str) -> bool:
        """Tell whether a signal of this name has come and is not taken."""
        prefix = signal_prefix(name)
        return any(each.startswith(prefix) and memo.body for each, memo in self.memos.items())

    def block(self, reason: str | None) -> None:
        """Let it wait for something else than time."""
        self._leave_worker(State.BLOCKED, reason)

    def follow(self, claimed: "JobRow") -> None:
        """Let it wait for the end of a claimed job, whose place it takes."""
        self.state, self.reason, self.after = State.BLOCKED, Reason.REPLACING, claimed.new.id
        claimed.replaced_by = self.new.id

    def end(self, state: State, now: datetime, reason: str | None = None) -> None:
        """Make it final. Who had it last stays known."""
        self.state, self.reason, self.finished_at = state, reason, now
        self.after = None

    def cancel(self, now: datetime) -> None:
        """End it because someone asked for it."""
        self.end(State.CANCELLED, now, Reason.REQUESTED)

    def give_up(self, now: datetime) -> None:
        """End it, instead of letting it wait again, because someone asked for it or another takes its place."""
        self.end(State.CANCELLED, now, Reason.REQUESTED if self.cancel_requested else Reason.REPLACED)

    def _leave_worker(self, state: State, reason: str | None) -> None:
        self.state, self.reason = state, reason
        self.worker = self.progress = self.finished_at = self.after = None

    def view(self, now: datetime) -> Job:
        """Return what others may see: what has become of it, and else what was asked for."""
        try:
            return self._view(now)
        except DAMAGES as error:
            said = {name: getattr(self, name) for name in ("state", "reason", "created_at", "finished_at", "fence")}
            return unreadable_job(self.new.id, {**said, "error": self.error, "task": self.new.task}, error)

    def _view(self, now: datetime) -> Job:
        shown = {name: getattr(self if hasattr(self, name) else self.new, name) for name in Job.__struct_fields__}
        result = None if self.has_stale_result(now) else self.result
        shown |= {"state": self.state_at(now), "result": result, "group": group_limit(self.group)}
        return Job(**shown)


@dataclass(slots=True)
class WorkerRow:
    """A registered worker. `beat_at` is on the boot clock."""

    info: WorkerInfo
    started_at: datetime
    beat_at: float
    condemned: bool = False
    polled_at: datetime | None = None
    vitals: Vitals | None = None

    def lease_left(self, boot: float) -> timedelta:
        """Return how long its lease still lasts; negative once it has run out."""
        return self.info.lease - self.beat_age(boot)

    def beat_age(self, boot: float) -> timedelta:
        """Return the time since its last beat."""
        return timedelta(seconds=boot - self.beat_at)

    def is_expired(self, boot: float) -> bool:
        """Tell whether its lease has run out or it is marked dead already."""
        return self.condemned or self.lease_left(boot) < timedelta()

    def view(self, boot: float, *, held: int, running: int) -> Worker:
        """Return what others may see."""
        age = self.beat_age(boot)
        return Worker(self.info, self.started_at, age, self.condemned, held, running, self.vitals)


# How jobs are accepted, and what becomes of those whose key is taken.

Key: TypeAlias = tuple[str, str]
"""A task and a key of it."""


def key_of(new: NewJob) -> Key | None:
    """Return the key of a job with its scope, if it has one."""
    return None if new.key is None else (new.task, new.key)


@dataclass(slots=True)
class KeyConflicts:
    """One call of enqueue. It writes into maps of its own, so that a refusal leaves everything as it was.

    `holders` says which job was last accepted with a key; `taken` are the jobs that were not stored, each with the
    one that has its key.
    """

    jobs: ChainMap[str, JobRow]
    holders: ChainMap[Key, str]
    now: datetime
    taken: dict[str, str] = field(default_factory=dict)

    def receive(self, new: NewJob, arrival: int) -> None:
        """Accept a job, or note who has its key. A job whose id is known already is left as it is."""
        if new.id in self.jobs:
            return
        row = JobRow.accepted(new, arrival, self.now)
        key = key_of(new)
        holder = None if key is None else self._holder(key)
        if holder is not None and not self._makes_way(holder, row):
            self.taken[new.id] = holder.new.id
            return
        self.jobs[new.id] = row
        if key is not None:
            self.holders[key] = new.id

    def _holder(self, key: Key) -> JobRow | None:
        holder = self.jobs[self.holders[key]] if key in self.holders else None
        return holder if holder is not None and holder.has_key(self.now) else None

    def _makes_way(self, holder: JobRow, row: JobRow) -> bool:
        """Tell whether the holder gives its key to the new job, and let it do so."""
        if not makes_way(row.new, holder.new.id, holder.state_at(self.now)):
            return False
        if holder.state in CLAIMED:
            row.follow(self._own(holder.new.id))
            return True
        if holder.after is not None:
            row.follow(self._own(holder.after))
        self._own(holder.new.id).end(State.CANCELLED, self.now, Reason.REPLACED)
        return True

    def _own(self, job_id: str) -> JobRow:
        """Return a copy of the job that belongs to this call."""
        row = self.jobs[job_id] = copy(self.jobs[job_id])
        return row


# What the verbs of the memory store share: the tables, and how a plain method becomes a verb.

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


def in_one_step(action: Callable[[], T]) -> Steps[T]:
    """Yield no statement and return what the action returns: so it runs when, and only when, the verb does."""
    yield from ()
    return action()


def verb(
    access: Access, *, wakes: bool = False, tells: bool = False
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], Verb[T]]]:
    """Make a plain method return a `Verb` of its own name."""

    def decorate(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Verb[T]]:
        @wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
            return Verb(method.__name__, access, in_one_step(partial(method, self, *args, **kwargs)), wakes, tells)

        return call

    return decorate


class Tables:
    """Jobs by id, the last job with each key, workers by id, who is buried, since when which queue is paused.

    Records by kind and name, each with the token of its last change; fires by what is unique of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: dict[str, JobRow] = {}
        self._holders: dict[Key, str] = {}
        self._workers: dict[str, WorkerRow] = {}
        self._buried = set[str]()
        self._paused_at = dict[str, datetime]()
        self._records: dict[tuple[Kind, str], Record] = {}
        self._fires: dict[tuple[str, datetime, FireCause], Fire] = {}
        self._arrivals = count()

    def _job(self, job_id: str) -> JobRow:
        try:
            return self._jobs[job_id]
        except KeyError:
            raise no_such_job(job_id) from None

    def _claimed_by(self, worker: str, ref: ClaimRef) -> JobRow | None:
        row = self._jobs.get(ref.job_id)
        return row if row is not None and row.is_claim(worker, ref) else None

    def _claims_of(self, worker: str) -> Iterator[JobRow]:
        return (row for row in self._jobs.values() if row.is_claim_of(worker))

    def _free_follower(self, row: JobRow) -> bool:
        """Let the job that waited for the end of this one wait for its time, and tell whether there was one."""
        if row.replaced_by is None or row.state not in FINAL:
            return False
        follower = self._jobs[row.replaced_by]
        row.replaced_by = None
        follower.wait(follower.run_at)
        return True

    def _view_workers(self) -> tuple[Worker, ...]:
        return tuple(self._view_worker(row) for row in self._workers.values())

    def _view_worker(self, row: WorkerRow) -> Worker:
        states = [job.state for job in self._claims_of(row.info.id)]
        return row.view(self._clock.boot(), held=states.count(State.HELD), running=states.count(State.RUNNING))
