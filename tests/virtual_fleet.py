"""A fleet of shipped supervisors and workers in virtual time, on a store that counts what it is asked."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from simulator.fleet import KILLED, Tree
from simulator.loop import VirtualLoop
from simulator.world import EPOCH, Weather, World
from standfast.model.crash import Death
from standfast.model.job import ClaimRef, NewJob
from standfast.model.states import CLAIMED
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryStore
from standfast.stores.verb import Verb

T = TypeVar("T")

PASSIVE = Settings(url="memory://", safety_poll=10.0, look_ahead=10.3, concurrency=100)
"""How a fleet is set on a store that rings no bell."""


class CountedStore(MemoryStore):
    """The memory store as it is, unwatched, and when each of its verbs was called."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._boot = world.clock.boot
        self.calls: list[tuple[float, str]] = []

    def apply(self, verb: Verb[T]) -> T:
        self.calls.append((self._boot(), verb.name))
        try:
            next(verb.steps)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        raise TypeError(f"{verb.name} yielded a statement")

    def check_told(self, verb: Verb[Any], answer: Any) -> None:
        """See nothing wrong."""


class Fleet(World):
    """A world in which nothing goes wrong by itself."""

    def __init__(self, settings: Settings, *, silent: bool = False) -> None:
        super().__init__(seed=7)
        self.settings = settings
        self.weather = Weather(lose_ring=1.0 if silent else 0.0)
        self.store: CountedStore = CountedStore(self)  # type: ignore[assignment]
        self.trees: list[Tree] = []
        self.run_at: dict[str, float] = {}

    def check_start(self, worker: str, ref: ClaimRef) -> None:
        """See nothing wrong: the tests look by themselves."""

    def check_burial(self, worker: str, death: Death) -> None:
        """See nothing wrong."""

    def check_lost(self, worker: str) -> None:
        """See nothing wrong."""

    # -- what happens ----------------------------------------------------------------------------------------

    def start(self, processes: int = 1) -> Tree:
        """Start a supervisor with its children."""
        self.trees.append(Tree(self, self.settings, processes))
        return self.trees[-1]

    def kill(self, tree: Tree) -> None:
        """End a supervisor and its children at once."""
        for process in (tree.process, *tree.children):
            process.end(KILLED)

    def enqueue(self, due: Iterable[float], lasts: float = 0.0) -> None:
        """Enqueue jobs, by virtual seconds at which each is due."""
        payload = msgspec.json.encode({"v": 1, "args": {"kind": "ok", "seconds": lasts}})
        jobs = []
        for at in due:
            job_id = f"job-{len(self.run_at):04}"
            self.run_at[job_id] = at
            jobs.append(NewJob(job_id, "work", payload, run_at=EPOCH + timedelta(seconds=at)))
        enqueue = self.store.enqueue(jobs)
        self.store.apply(enqueue)
        for tone in enqueue.tones:
            self.bell.ring(tone)

    async def until(self, at: float) -> None:
        """Let time pass."""
        await asyncio.sleep(at - self.clock.boot())

    async def start_all(self, workers: int) -> None:
        """Start so many, one after the other, and let them become acquainted."""
        for _ in range(workers):
            self.start()
            await asyncio.sleep(0.1)
        await self.until(2 * self.settings.beat_every + 1)

    # -- what came of it -------------------------------------------------------------------------------------

    def called(self, *verbs: str, since: float = 0.0) -> list[float]:
        """Return when the store was asked these."""
        return [at for at, verb in self.store.calls if verb in verbs and at >= since]

    def delays(self) -> list[float]:
        """Return by how much each job was late; each of them must have started once."""
        starts = self.ledger.starts
        assert sorted(starts) == sorted(self.run_at), f"{len(starts)} of {len(self.run_at)} started"
        assert {len(runs) for runs in starts.values()} <= {1}
        return [runs[0][0] - self.run_at[job_id] for job_id, runs in starts.items()]

    def started_by(self, worker: str) -> list[str]:
        """Return the jobs that a worker started."""
        return [job for job, runs in self.ledger.starts.items() if any(run[1] == worker for run in runs)]

    def held(self) -> set[str]:
        """Return the workers that hold jobs now."""
        return {row.worker for row in self.store._jobs.values() if row.state in CLAIMED and row.worker is not None}

    def starters(self) -> set[str]:
        """Return the workers that started jobs."""
        return {worker for runs in self.ledger.starts.values() for _, worker, _ in runs}


def play(scenario: Callable[[Fleet], Awaitable[None]], settings: Settings, *, silent: bool = False) -> None:
    """Run a scenario in virtual time, and leave no task behind."""

    async def whole() -> None:
        fleet = Fleet(settings, silent=silent)
        try:
            await scenario(fleet)
        finally:
            for process in fleet.processes:
                process.haunt()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=1.0)
        assert fleet.trace.violations == []

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())
