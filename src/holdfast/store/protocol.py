"""The contract of a store: its verbs, what each promises, and the values that they speak in.

Rules that hold for every verb:
- it is one atomic step: all of it happened, or nothing;
- repeating it with the same arguments succeeds and changes nothing more, but for `claim`, which gives other jobs
  each time, and `requeue` and `discard`, which raise JobStateError where the job is dead no more;
- time is the store's own; `run_at` and lease ages are never judged by a caller's clock;
- a write of a claim (finish, start, progress, save) carries (worker, job, fence) and is refused as STALE, changing
  nothing, unless that very claim is the job's valid one;
- a verb says before it is run whether it *wakes* workers, because jobs may have come or come back, and whether it
  *tells* of an end to those who wait for one (`store/verb.py`): drivers ring by that. What turns out while it runs
  may add to it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol, TypeVar

import msgspec

from holdfast.core.crash import Death
from holdfast.core.job import (
    Attempt,
    Cancellation,
    Claim,
    ClaimRef,
    Ending,
    Glance,
    Job,
    KnownTask,
    NewJob,
    Progress,
    Verdict,
)
from holdfast.core.memo import Memo, Save
from holdfast.core.record import Change, Fire, Kind, Record
from holdfast.core.states import State
from holdfast.store.verb import Verb

T = TypeVar("T")

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
    due jobs are given as ready ones are, and those that are not given stay blocked. `alone` takes suspects that are
    due and nothing else; without it suspects are left where they are. Suspects that it adopts are blocked no more
    even so: the next beat tells of them. `closed` are queues that give nothing in this call, as if they were
    paused; `closed_tasks` are tasks of which nothing is given but what is adopted, and whose jobs do not count for
    `next_due_at`. They are passed over one by one; where that is only so many a call, others begin further on.
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
    alone: bool = False
    closed: tuple[str, ...] = ()
    closed_tasks: tuple[str, ...] = ()

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


class WorkerBeat(msgspec.Struct, frozen=True):
    """One worker is alive; its claim calls up to `closed_call` are over, and of those it still has `held`.

    `polled_at` is when, by the store's time, it last looked for work without being called: its last word counts,
    and None is no news of that.
    """

    worker: str
    closed_call: int = 0
    held: frozenset[ClaimRef] = frozenset()
    polled_at: datetime | None = None


class Turn(msgspec.Struct, frozen=True):
    """A worker's place among the `of` living ones that serve the same queues, by their ids; the first has rank 0.

    `polled_at` is when any of them last looked for work without being called, as far as their beats have told.
    """

    rank: int
    of: int
    polled_at: datetime | None = None


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
    suspects: the queues, paused ones left out, in which suspects are due and unclaimed.
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
    suspects: frozenset[str] = frozenset()
    turns: Mapping[str, Turn] = {}
    record_due_at: datetime | None = None


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list, newest first; `before` is the id after which the next page starts.

    `tags` and `metadata` must all be there; `error` is a part of the last error's text, in any case of letters.
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

    def matches(self, job: Job) -> bool:
        """Tell whether a job is among those that are meant, on whatever page."""
        return (
            (not self.states or job.state in self.states)
            and self.queue in {None, job.queue}
            and self.task in {None, job.task}
            and (self.before is None or job.id < self.before)
            and self.key in {None, job.key}
            and set(self.tags) <= set(job.tags)
            and self.metadata.items() <= job.metadata.items()
            and (self.error is None or self.error.lower() in (job.error or "").lower())
        )


class Queue(msgspec.Struct, frozen=True):
    """A queue and what is in it, by state (states that do not occur are left out)."""

    name: str
    paused_at: datetime | None
    states: Mapping[State, int]


class Worker(msgspec.Struct, frozen=True):
    """A registered worker as anyone may look at it. `beat_age` is the time since its last beat."""

    info: WorkerInfo
    started_at: datetime
    beat_age: timedelta
    condemned: bool
    held: int
    running: int

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


class QueueAges(msgspec.Struct, frozen=True):
    """How old queues are by the store's time `now`, by name."""

    now: datetime
    queues: tuple[QueueAge, ...] = ()


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


class Store(Protocol):
    """The verbs."""

    @property
    def lease_clock(self) -> LeaseClock:
        """By which clock this store measures leases."""
        ...

    # -- clients ---------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key.

        A key is taken by the job that was last accepted with it while that job is unfinished, and after its
        completion for its own `keep_key`; a dead or cancelled job frees it. Where the key of a job is taken,
        `on_conflict` decides:

        RETURN: it is not stored.
        REPLACE: a waiting job ends as cancelled(replaced), and the new one is accepted. Of a claimed one the new
        job is accepted as blocked(replacing) `after` it, and runs when it has ended; if it has not started, or
        would have to be tried again, it is given up as cancelled(replaced) instead (see `finish`). A completed
        one, whose key is still kept, cannot be replaced: as RETURN.
        RAISE: KeyTakenError, and nothing of this call is stored.

        Several jobs of one call with one key meet each other in their order. Returns the ids of those that were
        not stored, each with the id of the job that has its key.
        """
        ...

    def glance(self, job_ids: Sequence[str]) -> Verb[Mapping[str, Glance]]:
        """Return the states of jobs; those that do not exist are left out."""
        ...

    def get(self, job_id: str) -> Verb[Job | None]:
        """Return the job, or None."""
        ...

    def list_jobs(self, which: JobFilter) -> Verb[tuple[Job, ...]]:
        """Return one page of jobs, newest id first."""
        ...

    def history(self, job_id: str) -> Verb[tuple[Attempt, ...]]:
        """Return every claim of the job by fence, the present one included."""
        ...

    def cancel(self, job_id: str) -> Verb[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final.

        A job that is blocked(replacing) gives its key, and their future, back to the one it waits for, if that is
        unfinished. Raises JobNotFoundError.
        """
        ...

    def memos(self, job_id: str) -> Verb[tuple[Memo, ...]]:
        """Return what a job has written down and was sent, by name; nothing of a job that does not exist."""
        ...

    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Verb[bool]:
        """Send a signal to a job that is not final: write its memo, unless there is one with this token.

        A job that is scheduled because it waits for a signal of this name becomes ready, due now, and its reason is
        forgotten; one whose time has come already keeps its place. Returns False, and writes nothing, where the job
        is final. Raises JobNotFoundError, and JobStateError where the job was sent MEMOS_LIMIT others.
        """
        ...

    def requeue(self, job_id: str) -> Verb[None]:
        """Make a dead job ready, due now, with attempt and crashes 0, or a scheduled one due now. The fence stays.

        Of a dead one the error and a wish to cancel it are forgotten; a suspect stays one. A dead job takes its key
        again: KeyTakenError where another job has it now. Raises JobNotFoundError, and JobStateError from any other
        state.
        """
        ...

    def discard(self, job_id: str) -> Verb[None]:
        """End a dead job as cancelled(discarded). Raises JobNotFoundError or JobStateError."""
        ...

    def pause(self, queue: str) -> Verb[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        ...

    def resume(self, queue: str) -> Verb[None]:
        """Undo `pause`."""
        ...

    def queues(self) -> Verb[tuple[Queue, ...]]:
        """Return every queue that holds jobs or is paused, by name."""
        ...

    def workers(self) -> Verb[tuple[Worker, ...]]:
        """Return the registered workers, oldest first."""
        ...

    def queue_ages(self) -> Verb[QueueAges]:
        """Return each queue with due jobs that nobody has claimed. Costs no more with many jobs than with few."""
        ...

    def count(self) -> Verb[Mapping[State, int]]:
        """Return how many jobs are in each state, zeros included."""
        ...

    def situation(self, job_id: str) -> Verb[Situation | None]:
        """Return what there is to know about why a job does not run, or None without such a job."""
        ...

    def unsettled(self, queues: tuple[str, ...] | None) -> Verb[int]:
        """Return how many jobs of these queues a drain still waits for.

        These are ready (in queues not paused), held, running, or scheduled after an earlier claim; not those that
        are suspended (`core.memo`).
        """
        ...

    # -- records ---------------------------------------------------------------------------------------------

    def records(self, kind: Kind, names: Sequence[str] | None = None) -> Verb[tuple[Record, ...]]:
        """Return all records of a kind, or those of the given names that exist, by name."""
        ...

    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Verb[DueRecords]:
        """Return at most `limit` records of a kind that are due at the store's now + `ahead`."""
        ...

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        """Make changes; tell for each whether it was made.

        One is made if the record has the version `seen`, or does not exist and 0 was seen, and then with all that
        comes of it; else nothing of it happens. With `after`, the record must have been made by the change with
        that token. True as well for one that was made before with the same token and was not followed by another;
        and for forgetting what does not exist, which nothing comes of. One that forgets writes no fires. Of one
        that is made, what it ends comes before the jobs that it brings. Raises, and makes none: ValueError if two
        are of the same record or a job's `on_conflict` is RAISE, JobStateError if one that is to be made withdraws
        what a worker has.
        """
        ...

    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Verb[tuple[Fire, ...]]:
        """Return fires of one schedule or of all, the latest planned first; `before` starts the next page.

        Those of one time go by schedule and cause, downward. A page does not end between them: there may be more
        than `limit`. Of each schedule the latest FIRES_KEPT by their planned time are kept, at least.
        """
        ...

    # -- workers ---------------------------------------------------------------------------------------------

    def claim(self, request: ClaimRequest) -> Verb[ClaimAnswer]:
        """Give jobs to a worker that is registered, and not buried yet: fence + 1, state held.

        Due jobs go by priority, then run_at, then order of arrival, queue by queue in the order asked for.
        Paused queues give nothing. A job that waits for a signal is not given ahead of its time: in a worker's hand
        it would not hear the signal. Raises WorkerBuriedError where the worker is not registered (any more).
        """
        ...

    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Verb[tuple[Verdict, ...]]:
        """Mark claims as running since the given times, fenced."""
        ...

    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Verb[tuple[Verdict, ...]]:
        """Record progress, fenced."""
        ...

    def save(self, worker: str, saves: Sequence[Save]) -> Verb[tuple[Verdict, ...]]:
        """Write memos down, fenced, each save of its own; one that says nothing new is accepted all the same."""
        ...

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        """End claims, fenced. An ending recorded before by this worker for this fence is accepted again.

        A job that has a replacement waits no more: every return of it (RETRY, SNOOZE, RELEASE, BLOCK) ends it as
        cancelled(replaced).

        A SNOOZE may have a reason of `core.memo`, which the job keeps while it is scheduled. One that waits for a
        signal of which there is a memo that is not taken waits no longer: it is ready, due now, without a reason.

        Whenever a job ends, here or by burial or reconciling, the one that is blocked(replacing) after it
        waits for its time as any other.
        """
        ...

    # -- supervisors -----------------------------------------------------------------------------------------

    def register(self, worker: WorkerInfo) -> Verb[None]:
        """Make the worker known and alive from now on; who is buried stays so, however late this call arrives."""
        ...

    def beat(self, beats: Sequence[WorkerBeat]) -> Verb[BeatAnswer]:
        """Renew leases: refused to a condemned or unregistered worker, granted to any other, however late."""
        ...

    def reconcile(self, beat: WorkerBeat) -> Verb[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        ...

    def condemn(self, workers: frozenset[str]) -> Verb[frozenset[str]]:
        """Mark those dead whose lease has run out *now*, atomically against their beats.

        Return the marked ones, those marked before included.
        """
        ...

    def forget_results(self, limit: int) -> Verb[int]:
        """Forget at most `limit` results whose time is over, for good; return how many. Views hide them before."""
        ...

    def forget_jobs(self, age: timedelta, limit: int) -> Verb[int]:
        """Forget at most `limit` jobs that completed or were cancelled `age` ago or before; return how many.

        With a job go its result, history, memos and tags, and its key. One whose key is kept for longer stays as
        long; a dead one until a person decides. A store may look at a part of its jobs only, and at another the
        next time.
        """
        ...

    def bury(self, worker: str, death: Death) -> Verb[tuple[ClaimRef, ...]]:
        """Remove the worker and give back all its claims as `crash.aftermath` says; return them.

        After it, no claim or beat of that worker is accepted. Burying an unknown worker gives nothing back; a
        vanished one is buried only if it is condemned.
        """
        ...


def ask_time(verbs: Store) -> Verb[DueRecords]:
    """Return the read that tells the store's time and else nothing."""
    return verbs.due_records(Kind.SCHEDULE, timedelta(), 0)
