"""What the verbs of the memory store share: the tables, and how a plain method becomes a verb."""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial, wraps
from itertools import count
from typing import Concatenate, ParamSpec, TypeVar

from standfast.clock import Clock
from standfast.core.job import ClaimRef
from standfast.core.record import Fire, FireCause, Kind, Record
from standfast.core.states import FINAL, State
from standfast.store.memory.reception import Key
from standfast.store.memory.rows import JobRow, WorkerRow
from standfast.store.protocol import Worker
from standfast.store.refusals import no_such_job
from standfast.store.verb import Access, Steps, Verb

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
