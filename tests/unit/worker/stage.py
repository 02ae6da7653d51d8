"""A worker on the memory store, with the test in the place of its supervisor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from simulator.loop import VirtualLoop
from simulator.process import Process
from simulator.wires import MemoryLog, WireEnd
from simulator.world import VirtualClock
from standfast import Standfast
from standfast.durable.files import file_store_of
from standfast.events import Event
from standfast.model.job import Attempt, Job
from standfast.model.states import FINAL
from standfast.observe.why import explain
from standfast.settings import Settings
from standfast.stores.backend import identity_of
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import WorkerBeat, WorkerInfo
from standfast.worker.attempt import Workload
from standfast.worker.messages import Renewed, Revoke, Stop
from standfast.worker.ports import Ports
from standfast.worker.worker import Worker

SETTINGS = Settings(url="memory://", lease=1000.0, grace=5.0, concurrency=4)
PATIENCE = 30.0
"""Seconds after which something is taken not to happen."""


class Stage:
    """One worker, its store and what it told."""

    kind: type[MemoryBackend] = MemoryBackend

    def __init__(self, app: Standfast, settings: Settings = SETTINGS, **options: Any) -> None:
        self.app = app
        self.clock = VirtualClock()
        self.places = settings.concurrency
        self.backend = app._backend = self.kind(self.clock)
        self.told: list[Event] = []
        app.events.subscribe(self.told.append)
        self._far, near = WireEnd.pair(Process(1, "supervisor"), Process(2, "child"))
        ports = Ports(
            self.backend,
            near,
            MemoryLog(),
            self.clock,
            Random(1),
            app.events,
            file_store_of(settings, partial(identity_of, self.backend)),
        )
        parts = {name: options.pop(name) for name in ("served", "hours", "limits", "tracing") if name in options}
        workload = Workload(tasks=app.tasks, middleware=app.middlewares, **parts)
        self.worker = Worker("w", workload, settings, ports, **options)
        span = timedelta(seconds=SETTINGS.lease)
        self.backend.run(self.backend.verbs.register(WorkerInfo("w", "s", "host", 1, span, None, 4)))

    def heard(self) -> list[Any]:
        """Return what the worker has said to its supervisor."""
        return list(self._far._inbox)

    def renew(self) -> None:
        """Beat for the worker: what it holds may start."""
        self._far.send(Renewed(self.clock.boot()))

    def pass_on(self) -> None:
        """Beat, and tell the worker what the beat brought."""
        answer = self.backend.run(self.backend.verbs.beat([WorkerBeat("w")]))
        revoked, replaced = (
            tuple((ref.job_id, ref.fence) for ref in claims.get("w", ()))
            for claims in (answer.revoked, answer.replaced)
        )
        self._far.send(Revoke(revoked, tuple(answer.paused), replaced))
        self.renew()

    def stop(self) -> None:
        self._far.send(Stop(SETTINGS.grace))

    def job(self, handle: Any) -> Job:
        found = self.backend.run(self.backend.verbs.get(handle.id))
        assert found is not None
        return found

    def history(self, handle: Any) -> tuple[Attempt, ...]:
        return self.backend.run(self.backend.verbs.history(handle.id))

    def why(self, handle: Any) -> str:
        situation = self.backend.run(self.backend.verbs.situation(handle.id))
        assert situation is not None
        return explain(situation).text

    async def until(self, condition: Any) -> Any:
        """Wait for what must happen."""
        async with asyncio.timeout(PATIENCE):
            while not (found := condition()):  # noqa: ASYNC110 - virtual time, or threads
                await asyncio.sleep(0.01)
        return found

    async def settled(self, handle: Any) -> Job:
        """Wait until the job is final."""
        return await self.until(lambda: self.job(handle) if self.job(handle).state in FINAL else None)

    def names_told(self) -> list[str]:
        return [type(event).__name__ for event in self.told]


@asynccontextmanager
async def working(stage: Stage) -> AsyncIterator[Stage]:
    """Let the worker work, and stop it at the end."""
    running = asyncio.ensure_future(stage.worker.run())
    stage.renew()
    try:
        yield stage
    finally:
        stage.stop()
        await running


def play(scenario: Any, *, virtual: bool = True) -> None:
    """Run a test on a loop of its own: in virtual time, or in real time where threads take part."""
    with asyncio.Runner(loop_factory=VirtualLoop if virtual else None) as runner:
        runner.run(scenario())
