"""How a handler of the world begins and ends, and what may go wrong in its midst."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from simulator.process import Process
from simulator.world import World
from standfast.context import Context
from standfast.model.job import ClaimRef
from standfast.model.outcomes import Snooze

EXIT_OF_POISON = 9


@dataclass(frozen=True, slots=True)
class Home:
    """Of which world, process and worker the code that runs is."""

    world: World
    process: Process
    worker: str


home: ContextVar[Home] = ContextVar("home")


@dataclass(frozen=True, slots=True)
class Life:
    """One handler."""

    at: Home
    ctx: Context
    ref: ClaimRef

    @property
    def world(self) -> World:
        """Its world."""
        return self.at.world

    async def act(self, kind: str) -> None:
        """Do what jobs of this kind are there for."""
        first = self.ctx.attempt == 1
        if kind == "poison" or (kind == "crash_once" and first):
            self.world.say(f"{self.ctx.job_id} takes its process down")
            self.at.process.end(EXIT_OF_POISON)
            await asyncio.sleep(0)  # a dead process does not get beyond its next await
        if kind == "fail" or (kind == "flaky" and first):
            raise RuntimeError("as planned")
        if kind == "snooze" and self.ctx.job_id not in self.world.snoozed:
            self.world.snoozed.add(self.ctx.job_id)
            raise Snooze(1.0)


@contextmanager
def lived(ctx: Context) -> Iterator[Life]:
    """Write the first and the last line of a handler into the ledger."""
    at = home.get()
    life = Life(at, ctx, ClaimRef(ctx.job_id, ctx.fence))
    at.world.check_start(at.worker, life.ref)
    at.world.ledger.started(at.world.clock.boot(), at.worker, life.ref)
    try:
        yield life
    finally:
        at.world.ledger.returned(at.worker, life.ref)
        at.world.trail.returned(life.ref, at.world.clock.boot())
