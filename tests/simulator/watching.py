"""How the store of the world is watched: each job before and after a verb, by one who looks over its shoulder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from standfast.model.clock import Clock
from standfast.model.job import ClaimRef
from standfast.model.states import CLAIMED, State
from standfast.stores.memory.rows import MemoRow
from standfast.stores.memory.store import MemoryStore
from standfast.stores.verb import Access, Steps, Verb

if TYPE_CHECKING:
    from simulator.world import World

T = TypeVar("T")

NO_MEMOS: Mapping[str, MemoRow] = {}


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as the watcher sees it."""

    state: State
    fence: int
    worker: str | None
    attempt: int
    crashes: int
    group: int
    max_attempts: int
    queue: str
    task: str
    run_at: datetime
    memos: Mapping[str, MemoRow] = field(repr=False)

    def is_claim(self, worker: str, ref: ClaimRef) -> bool:
        """Tell whether this very claim is the valid one."""
        return self.state in CLAIMED and self.worker == worker and self.fence == ref.fence


Snapshot = dict[str, Seen]


class Watching(MemoryStore):
    """The memory store, with what a watcher needs."""

    def __init__(self, clock: Clock, world: "World") -> None:
        super().__init__(clock)
        self._world = world

    def apply(self, verb: Verb[T]) -> T:
        """Commit a verb."""
        try:
            next(verb.steps)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        raise TypeError(f"{verb.name} yielded a statement")

    def check_told(self, verb: Verb[Any], answer: Any) -> None:
        """Watch: what a caller is told of jobs that came in, or were claimed, is in the store by then."""
        if verb.name == "enqueue":
            for job in verb.brings:
                if job.id not in answer and job.id not in self._jobs:
                    self._world.violate(f"{job.id} was told as accepted and is not stored")
        elif verb.name == "claim":
            for claim in answer.jobs:
                if self._jobs[claim.job_id].fence < claim.fence:
                    self._world.violate(f"the claim {claim.job_id}:{claim.fence} was told and is not stored")

    def look(self, job_id: str) -> Seen:
        """Return one job as it is."""
        row = self._jobs[job_id]
        new = row.new
        return Seen(
            row.state,
            row.fence,
            row.worker,
            row.attempt,
            row.crashes,
            row.group,
            new.max_attempts,
            new.queue,
            new.task,
            row.run_at,
            row.memos.copy() if row.memos else NO_MEMOS,
        )

    def snapshot(self, of: Iterable[str] | None = None) -> Snapshot:
        """Return jobs as they are: these, as far as they exist, or all."""
        return {job_id: self.look(job_id) for job_id in (self._jobs if of is None else self._jobs.keys() & of)}

    def _watch(
        self, verb: Verb[T], check: Callable[[Snapshot, T], None], of: Iterable[str] | None = None
    ) -> Verb[T]:
        """Return a verb that is checked by what these jobs, or all, were like before and by its answer."""

        def steps() -> Steps[T]:
            before = self.snapshot(of) if verb.access is Access.WRITE else {}
            answer = yield from verb.steps
            check(before, answer)
            watched.wakes = verb.wakes  # a finish may learn only now that it made a job due
            return answer

        watched = Verb(verb.name, verb.access, steps(), verb.wakes, verb.tells)
        return watched
