"""What a conformance test holds in its hands: an empty store, its clock, and short words for common acts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from msgspec.structs import replace

from standfast.model.crash import Death, DeathKind
from standfast.model.job import Attempt, Claim, ClaimRef, Ending, Failure, Job, KnownTask, NewJob, Verdict
from standfast.model.memos import SLEEPING, Memo, Save, signal_reason
from standfast.model.records import Change, Decision, Fire, Kind, Record
from standfast.model.states import Move, Reason, State
from standfast.stores.backend import Backend
from standfast.stores.contract import Store
from standfast.stores.values import (
    BeatAnswer,
    ClaimAnswer,
    ClaimRequest,
    JobFilter,
    Queue,
    Vitals,
    Worker,
    WorkerBeat,
    WorkerInfo,
)
from standfast.stores.verb import Verb
from standfast.testing.clock import FakeClock

T = TypeVar("T")

LEASE = 15.0
TASK = "mail.send"
FIRST = "t1"
"""The token of a signal that says no other."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a store shows: if two are equal, nothing was changed between them."""

    jobs: tuple[Job, ...]
    histories: tuple[tuple[Attempt, ...], ...]
    memos: tuple[tuple[Memo, ...], ...]
    queues: tuple[Queue, ...]
    workers: tuple[Worker, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Every record that a store keeps, and every fire."""

    records: tuple[Record, ...]
    fires: tuple[Fire, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A job that was brought into some state, and the last claim of it (fence 0 if there was none)."""

    job_id: str
    worker: str
    ref: ClaimRef


class Harness:
    """An empty store on a clock that the test moves."""

    def __init__(self, backend: Backend, clock: FakeClock) -> None:
        self.backend = backend
        self.clock = clock
        self._numbers = count(1)
        self._calls = count(1)

    @property
    def verbs(self) -> Store:
        """The verbs under test."""
        return self.backend.verbs

    def run(self, verb: Verb[T]) -> T:
        """Run a verb and return its answer."""
        return self.backend.run(verb)

    # -- jobs ------------------------------------------------------------------------------------------------

    def new_job(self, **fields: Any) -> NewJob:
        """Return a job that is due now unless told otherwise; its ids grow as those of clients do."""
        job = NewJob(id=f"01900000-0000-7000-8000-{next(self._numbers):012x}", task=TASK, payload=b"{}")
        return replace(job, **fields)

    def enqueue(self, **fields: Any) -> str:
        """Enqueue one job and return its id."""
        job = self.new_job(**fields)
        self.run(self.verbs.enqueue([job]))
        return job.id

    def taken_by(self, **fields: Any) -> str | None:
        """Enqueue one job; return the id of the job that has its key, or None where it was accepted."""
        job = self.new_job(**fields)
        return self.run(self.verbs.enqueue([job])).get(job.id)

    def job(self, job_id: str) -> Job:
        """Return a job that must be there."""
        job = self.run(self.verbs.get(job_id))
        assert job is not None
        return job

    def history(self, job_id: str) -> tuple[Attempt, ...]:
        """Return the history of a job."""
        return self.run(self.verbs.history(job_id))

    def last_attempt(self, job_id: str) -> Attempt:
        """Return the newest claim in the history of a job."""
        return self.history(job_id)[-1]

    def snapshot(self) -> Snapshot:
        """Return everything that the store shows."""
        jobs = self.run(self.verbs.list_jobs(JobFilter(limit=1000))).jobs
        histories = tuple(self.history(job.id) for job in jobs)
        memos = tuple(self.run(self.verbs.memos(job.id)) for job in jobs)
        return Snapshot(jobs, histories, memos, self.run(self.verbs.queues()), self.run(self.verbs.workers()))

    def memos(self, job_id: str) -> dict[str, bytes]:
        """Return the bodies of the memos of a job by name."""
        return {memo.name: memo.body for memo in self.run(self.verbs.memos(job_id))}

    def signal(self, job_id: str, name: str, token: str = FIRST, body: bytes = b"1") -> bool:
        """Send a signal to a job; tell whether it was not too late."""
        return self.run(self.verbs.signal(job_id, name, token, body))

    # -- records ---------------------------------------------------------------------------------------------

    def new_change(self, name: str, **fields: Any) -> Change:
        """Return a wish to make a schedule of this name, unless told otherwise, with a token of its own."""
        change = Change(Kind.SCHEDULE, name, 0, f"token-{next(self._numbers)}", b"body")
        return replace(change, **fields)

    def change(self, name: str, **fields: Any) -> bool:
        """Change one record; tell whether that was done."""
        (made,) = self.run(self.verbs.change_records([self.new_change(name, **fields)]))
        return made

    def new_fire(self, schedule: str = "a", **fields: Any) -> Fire:
        """Return a fire of a schedule that was planned for now, unless told otherwise."""
        return replace(Fire(schedule, self.clock.now(), Decision.FIRED), **fields)

    def record(self, name: str, kind: Kind = Kind.SCHEDULE) -> Record | None:
        """Return the record of this name, or None."""
        found = self.run(self.verbs.records(kind, [name]))
        return found[0] if found else None

    def kept(self) -> Kept:
        """Return every record and every fire."""
        records = (record for kind in Kind for record in self.run(self.verbs.records(kind)))
        return Kept(tuple(records), self.run(self.verbs.fires(None, 100_000)))

    # -- workers ---------------------------------------------------------------------------------------------

    def register(self, lease: float = LEASE, queues: tuple[str, ...] | None = None) -> str:
        """Register a worker and return its id."""
        number = next(self._numbers)
        info = WorkerInfo(f"worker-{number}", "supervisor-1", "host-1", number, timedelta(seconds=lease), queues, 4)
        self.run(self.verbs.register(info))
        return info.id

    def ask(self, worker: str, limit: int = 100, **fields: Any) -> ClaimAnswer:
        """Claim and return the whole answer; calls are numbered upward unless a test numbers them itself."""
        call = fields.pop("call", None) or next(self._calls)
        return self.run(self.verbs.claim(ClaimRequest(worker, call, limit, **fields)))

    def claim(self, worker: str, limit: int = 100, **fields: Any) -> tuple[Claim, ...]:
        """Claim and return the jobs."""
        return self.ask(worker, limit, **fields).jobs

    def claim_one(self, worker: str, **fields: Any) -> ClaimRef:
        """Claim the one job there is."""
        (claim,) = self.claim(worker, **fields)
        return claim.ref

    def claimed_ids(self, worker: str, limit: int = 100, **fields: Any) -> list[str]:
        """Claim and return the job ids in the order given."""
        return [claim.job_id for claim in self.claim(worker, limit, **fields)]

    def start(self, worker: str, ref: ClaimRef, started_at: datetime | None = None) -> Verdict:
        """Mark a claim as running."""
        (verdict,) = self.run(self.verbs.start(worker, [(ref, started_at or self.clock.now())]))
        return verdict

    def finish(self, worker: str, ref: ClaimRef, move: Move, **fields: Any) -> Verdict:
        """End a claim."""
        (verdict,) = self.run(self.verbs.finish(worker, [Ending(ref, move, **fields)]))
        return verdict

    def save(self, worker: str, ref: ClaimRef, number: int, memos: Mapping[str, bytes]) -> Verdict:
        """Write memos down under a claim."""
        (verdict,) = self.run(self.verbs.save(worker, [new_save(ref, number, memos)]))
        return verdict

    # -- supervisors -----------------------------------------------------------------------------------------

    def beat(
        self,
        worker: str,
        closed_call: int = 0,
        held: frozenset[ClaimRef] = frozenset(),
        polled_at: datetime | None = None,
        vitals: Vitals | None = None,
    ) -> BeatAnswer:
        """Beat for one worker."""
        return self.run(self.verbs.beat([WorkerBeat(worker, closed_call, held, polled_at, vitals)]))

    def expire(self, worker: str) -> None:
        """Let the worker's lease run out and mark it dead, as another worker's supervisor would."""
        self.clock.advance(LEASE + 1)
        assert self.run(self.verbs.condemn(frozenset({worker}))) == {worker}

    def bury(
        self, worker: str, kind: DeathKind, started: frozenset[ClaimRef] = frozenset(), evidence: str = ""
    ) -> tuple[ClaimRef, ...]:
        """Bury a worker; one that vanished is marked dead first."""
        if kind is DeathKind.VANISHED:
            self.expire(worker)
        return self.run(self.verbs.bury(worker, Death(kind, started, evidence)))

    # -- bringing a job into a state -------------------------------------------------------------------------

    def place(self, state: State, **fields: Any) -> Placed:
        """Enqueue a job and bring it into the state by lawful moves. Its queue must hold no other due job."""
        worker = self.register()
        delay = timedelta(hours=1 if state is State.SCHEDULED else 0)
        job_id = self.enqueue(**{"delay": delay, **fields})
        if state in {State.SCHEDULED, State.READY}:
            return Placed(job_id, worker, ClaimRef(job_id, 0))
        ref = self.claim_one(worker, queues=(self.job(job_id).queue,))
        if state is State.RUNNING:
            self.start(worker, ref)
        elif state is not State.HELD:
            self.run(self.verbs.finish(worker, [_ending_into(state, ref)]))
        return Placed(job_id, worker, ref)

    def suspend(self, name: str | None, delay: timedelta, placed: Placed | None = None, **fields: Any) -> Placed:
        """Let a running job, a new one unless told otherwise, wait for a signal, or without a name for its time."""
        placed = placed or self.place(State.RUNNING, **fields)
        reason = SLEEPING if name is None else signal_reason(name)
        verdict = self.finish(placed.worker, placed.ref, Move.SNOOZE, delay=delay, reason=reason)
        assert verdict is Verdict.ACCEPTED
        return placed


def new_save(ref: ClaimRef, number: int, memos: Mapping[str, bytes]) -> Save:
    """Return a save of memos, each body by its name."""
    return Save(ref, number, tuple(Memo(name, body) for name, body in memos.items()))


KNOWN = KnownTask(TASK, 1)
"""The task of every job that a harness makes, as a worker that knows it adopts it."""


def _ending_into(state: State, ref: ClaimRef) -> Ending:
    return {
        State.BLOCKED: Ending(ref, Move.BLOCK, reason=Reason.NO_WORKER),
        State.COMPLETED: Ending(ref, Move.COMPLETE, result=b"42"),
        State.DEAD: Ending(ref, Move.DIE, failure=Failure("ValueError", "no")),
        State.CANCELLED: Ending(ref, Move.CANCEL, reason="not wanted"),
    }[state]
