"""The tasks of the world."""

import asyncio
from collections.abc import Mapping
from functools import cache

from simulator.life import Home, home, lived
from simulator.long_handlers import declare_long
from simulator.process import Process
from simulator.world import World
from standfast.app import Standfast
from standfast.context import Context
from standfast.model.backoff import Constant
from standfast.worker.attempt import AnyTask


def tasks_of(world: World, process: Process, worker: str) -> Mapping[str, AnyTask]:
    """Return the tasks, to be run by the process in whose context this is called."""
    home.set(Home(world, process, worker))
    return _declared().tasks


@cache
def _declared() -> Standfast:
    """Return the app, made once: to look for settings for so many processes would take longer than their work."""
    app = Standfast("memory://")

    @app.task(max_attempts=20, backoff=Constant(0.5))
    async def work(ctx: Context, kind: str, seconds: float) -> str:
        with lived(ctx) as life:
            await asyncio.sleep(seconds)
            await life.act(kind)
        return "done"

    declare_long(app)
    return app
