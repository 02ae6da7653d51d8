"""The shipped supervisor and worker, each in a simulated process."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, NoReturn, TypeVar

from simulator.handlers import tasks_of
from simulator.loop import here
from simulator.process import Process
from simulator.wires import MemoryLog, WireEnd
from simulator.world import World
from standfast.durable.files import file_store_of
from standfast.events import ClaimLost, Event, Events, WorkerLost
from standfast.model.crash import is_of_host
from standfast.settings import Settings
from standfast.stores.backend import Backend, identity_of
from standfast.stores.values import ClaimAnswer
from standfast.stores.verb import Verb
from standfast.supervisor.child import ChildSpec, Exit
from standfast.supervisor.plan import Plan
from standfast.supervisor.plan import Ports as SupervisorPorts
from standfast.supervisor.supervisor import Supervisor
from standfast.worker.attempt import Workload
from standfast.worker.messages import Hello
from standfast.worker.ports import Ports as WorkerPorts
from standfast.worker.worker import Worker

T = TypeVar("T")

IMPORT_TIME = 0.3
KILLED = -9


class WorldBackend(Backend):
    """The store as a process of the world reaches it."""

    def __init__(self, world: World, *, of_worker: bool = False) -> None:
        super().__init__("the world")
        self._world = world
        self._of_worker = of_worker
        self.verbs, self.bell = world.store, world.bell

    def _open(self) -> NoReturn:
        raise TypeError("the world has no engine")

    def run(self, verb: Verb[T]) -> T:
        """Nobody in the world blocks."""
        raise TypeError(f"{verb.name} was called in the blocking way")

    async def arun(self, verb: Verb[T]) -> T:
        """Call the store as the weather allows."""
        if self._of_worker:
            self._world.stumble(verb)
        answer = await self._world.call(verb)
        if self._of_worker:
            self._world.stumble(verb)
        if isinstance(answer, ClaimAnswer):
            self._world.known_at.update((claim.ref, self._world.clock.boot()) for claim in answer.jobs)
        return answer

    def join(self, connection: Any) -> NoReturn:
        """Nobody in the world has a connection of its own."""
        raise TypeError(f"{connection!r} was joined, and the world has no transactions")

    ajoin = join


class SimulatedChild:
    """A child process of the world."""

    killable = True

    def __init__(self, process: Process, channel: WireEnd, notes: MemoryLog) -> None:
        self.process = process
        self.channel = channel
        self.claim_log = notes

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    async def wait(self) -> Exit:
        """Return how it ended, once it has."""
        return Exit(await asyncio.shield(self.process.exit))

    def kill(self) -> None:
        """End it at once."""
        self.process.end(KILLED)

    async def stacks(self) -> str:
        """Nothing is known of where it is."""
        return ""

    async def seen_from_outside(self) -> Mapping[str, str]:
        """There is nothing to see."""
        return {}

    def remains(self) -> Mapping[str, str]:
        """Nothing is left of it."""
        return {}

    def forget(self) -> None:
        """Remove nothing: there is no disk."""


class Tree:
    """A supervisor and its children."""

    isolates = True

    def __init__(self, world: World, settings: Settings, processes: int) -> None:
        self._world = world
        self._settings = settings
        self.children: list[Process] = []
        self.process = world.new_process("supervisor")
        self._random = Random(world.random.getrandbits(64))
        ports = SupervisorPorts(self, lambda _: WorldBackend(world), world.clock, self._random, _events(world))
        self._supervisor = Supervisor(Plan(processes), ports)
        start_in(self.process, self._live())

    async def _live(self) -> None:
        try:
            await self._supervisor.run()
        except Exception as error:  # noqa: BLE001 - whatever breaks a supervisor is a finding
            self._world.violate(f"a supervisor broke: {error!r}")
        self.process.end(0)

    def stop(self) -> None:
        """Stop gracefully, as by SIGTERM."""
        start_in(self.process, self._signal())

    async def _signal(self) -> None:
        self._supervisor.stop()

    async def launch(self, spec: ChildSpec) -> SimulatedChild:
        """Start a child, as the launcher port of the supervisor: on some machines that takes a while."""
        if self._world.land.launch:
            await asyncio.sleep(self._random.uniform(0, self._world.land.launch))
        process = self._world.new_process("suspects" if spec.group else "child")
        process.group = spec.group
        self._world.worker_process[spec.worker] = process
        self._world.say(f"launches {process.name} as {spec.worker[:4]}")
        self.children.append(process)
        if is_of_host(spec.group):
            self._world.check_hosts(self.children)
        ours, theirs = WireEnd.pair(self.process, process)
        self._world.worker_channel[spec.worker] = theirs
        notes = MemoryLog()
        start_in(process, self._child(process, theirs, notes, spec))
        return SimulatedChild(process, ours, notes)

    async def _child(self, process: Process, channel: WireEnd, notes: MemoryLog, spec: ChildSpec) -> None:
        world = self._world
        await asyncio.sleep(IMPORT_TIME)
        backend = WorldBackend(world, of_worker=True)
        ports = WorkerPorts(
            backend,
            channel,
            notes,
            world.clock,
            Random(world.random.getrandbits(64)),
            _events(world),
            file_store_of(self._settings, partial(identity_of, backend)),
        )
        tasks = tasks_of(world, process, spec.worker)
        workload = Workload(tasks=tasks, hours=world.windows, limits=world.limits)
        worker = Worker(spec.worker, workload, self._settings, ports, group=spec.group)
        channel.send(Hello(self._settings, len(tasks), world.windows, watching=world.watching))
        try:
            await worker.run()
        except Exception as error:  # noqa: BLE001 - whatever breaks a worker is a finding
            world.violate(f"a worker broke: {error!r}")
        process.end(0)


def start_in(process: Process, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine as code of this process."""
    context = copy_context()
    context.run(here.set, process)
    asyncio.get_running_loop().create_task(coroutine, context=context)


def _events(world: World) -> Events:
    events = Events()

    def hear(event: Event) -> None:
        world.say(f"{type(event).__name__}")
        if isinstance(event, ClaimLost):
            world.claims_lost += 1
        if isinstance(event, WorkerLost):
            world.check_lost(event.worker)

    events.subscribe(hear)
    return events
