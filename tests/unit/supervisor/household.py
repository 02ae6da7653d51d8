"""One child of a supervisor, its line to it, and a store in memory, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from simulator.fleet import SimulatedChild
from simulator.process import Process
from simulator.wires import MemoryLog, WireEnd
from simulator.world import VirtualClock
from standfast.errors import ConfigurationError, StoreUnavailableError
from standfast.events import Event, Events
from standfast.model.job import Claim, NewJob
from standfast.model.states import State
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import BeatAnswer, ClaimRequest, DueSuspects, Worker, WorkerInfo
from standfast.stores.verb import Verb
from standfast.supervisor.child import Child, ChildSpec, Phase
from standfast.supervisor.heartbeat import Heartbeat
from standfast.supervisor.housekeeping import nobody_minds
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.worker.claim_log import ClaimLog
from standfast.worker.messages import Message, Renewed, Told
from standfast.worker.storecalls import StoreCalls

SETTINGS = Settings(url="memory://", lease=15.0, keep_finished=100.0)


class Moody(MemoryBackend):
    """A store that takes its time, can be away, and remembers when it was called what.

    Its clock can be set `ahead`: then it finds the beat of `other` old.
    """

    latency = 0.0
    slow_verb = ""
    """This one takes a minute."""
    refused_verb = ""
    away = False
    damaged = False
    """Whatever reads what is in it comes to grief."""
    ahead = timedelta()

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.called: list[tuple[str, float]] = []

    async def arun(self, verb: Verb[object]) -> object:
        self.called.append((verb.name, self.clock.boot()))
        if self.away:
            raise StoreUnavailableError("away")
        if self.damaged:
            raise OverflowError("too large")
        if verb.name == self.refused_verb:
            raise ConfigurationError("not of this store")
        await asyncio.sleep(60.0 if verb.name == self.slow_verb else self.latency)
        answer = await super().arun(verb)
        await asyncio.sleep(self.latency)
        if isinstance(answer, BeatAnswer) and self.ahead:
            return replace(answer, now=answer.now + self.ahead, expired=frozenset({"other"}))
        return answer

    def calls_of(self, verb: str) -> list[float]:
        """Return when it was called so."""
        return [at for name, at in self.called if name == verb]


class Household:
    """The child, which is the worker `name`; others may be registered in the store."""

    def __init__(self, name: str = "ours", settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.clock = VirtualClock()
        self.backend = Moody(self.clock)
        self.verbs = self.backend.verbs
        process, supervisor = Process(1, "child"), Process(2, "supervisor")
        near, self.far = WireEnd.pair(supervisor, process)
        log = MemoryLog()
        self.claim_log = ClaimLog(log)
        self.child = Child(ChildSpec(name), SimulatedChild(process, near, log), 0.0, Phase.WORKING)
        self.events = Events()
        self.told_events: list[Event] = []
        self.events.subscribe(self.told_events.append)
        self.calls = StoreCalls(self.backend, self.clock, Events(), Random(1), timeout=5.0)
        self.memory: int | None = None
        self.suspects: list[frozenset[DueSuspects]] = []
        self.register(name)

    def beat(
        self, detector: IncidentDetector | None = None, lost: Callable[[Worker], Awaitable[None]] = nobody_minds
    ) -> Heartbeat:
        """Begin to beat."""
        heart = Heartbeat(
            self.calls,
            self.clock,
            self.settings,
            self.events,
            children=lambda: [self.child],
            suspects_wait=self.suspects.append,
            lost=lost,
            detector=detector,
            memory=lambda pids: {} if self.memory is None else dict.fromkeys(pids, self.memory),
        )
        self._beating = asyncio.ensure_future(heart.run())
        return heart

    def register(self, worker: str) -> None:
        """Make another worker known."""
        self.backend.run(self.verbs.register(WorkerInfo(worker, "s", "host", 1, timedelta(seconds=15))))

    def claim(self, worker: str, *jobs: NewJob) -> tuple[Claim, ...]:
        """Enqueue jobs, a plain one called `job` by default, and let a worker claim them."""
        self.backend.run(self.verbs.enqueue(jobs or [NewJob("job", "task", b"{}")]))
        return self.backend.run(self.verbs.claim(ClaimRequest(worker, 1, len(jobs) or 1))).jobs

    def claim_and_note(self, worker: str, *jobs: NewJob) -> None:
        """Likewise, and let our child note the answer."""
        self.claim_log.answered(1, [claim.ref for claim in self.claim(worker, *jobs)])

    def state(self) -> State | None:
        """Return where the job called `job` is; None where it is no more."""
        job = self.backend.run(self.verbs.get("job"))
        return None if job is None else job.state

    def workers(self) -> list[str]:
        """Return who is registered."""
        return [worker.info.id for worker in self.backend.run(self.verbs.workers())]

    async def next_words(self) -> list[Message | None]:
        """Return all that the child hears of the next beat."""
        words = [await self.far.receive()]
        while not isinstance(words[-1], Renewed):
            words.append(await self.far.receive())
        return words

    async def told(self) -> Told:
        """Return what the child hears with the next beat."""
        [word] = await self.next_words()
        assert isinstance(word, Renewed)
        assert word.told is not None
        return word.told
