"""The tasks of the world. Each handler writes its first and last line into the ledger."""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache

from holdfast.app import Holdfast
from holdfast.context import Context
from holdfast.core.backoff import Constant
from holdfast.core.job import ClaimRef
from holdfast.core.outcome import Snooze
from holdfast.testing.simulator.process import Process
from holdfast.testing.simulator.world import World
from holdfast.worker.attempt import AnyTask

EXIT_OF_POISON = 9


_life: ContextVar[tuple[World, Process, str]] = ContextVar("_life")
"""Of which world, process and worker the code that runs is."""


def tasks_of(world: World, process: Process, worker: str) -> Mapping[str, AnyTask]:
    """Return the tasks, to be run by the process in whose context this is called."""
    _life.set((world, process, worker))
    return _declared().tasks


@cache
def _declared() -> Holdfast:
    """Return the app, made once: to look for settings for so many processes would take longer than their work."""
    app = Holdfast("memory://")

    @app.task(max_attempts=20, backoff=Constant(0.5))
    async def work(ctx: Context, kind: str, seconds: float) -> str:
        world, process, worker = _life.get()
        ref = ClaimRef(ctx.job_id, ctx.fence)
        world.check_start(worker, ref)
        world.ledger.started(world.clock.boot(), worker, ref)
        try:
            await asyncio.sleep(seconds)
            await _act(world, process, ctx, kind)
        finally:
            world.ledger.returned(worker, ref)
        return "done"

    return app


async def _act(world: World, process: Process, ctx: Context, kind: str) -> None:
    first = ctx.attempt == 1
    if kind == "poison" or (kind == "crash_once" and first):
        world.say(f"{ctx.job_id} takes its process down")
        process.end(EXIT_OF_POISON)
        await asyncio.sleep(0)  # a dead process does not get beyond its next await
    if kind == "fail" or (kind == "flaky" and first):
        raise RuntimeError("as planned")
    if kind == "snooze" and ctx.job_id not in world.snoozed:
        world.snoozed.add(ctx.job_id)
        raise Snooze(1.0)
