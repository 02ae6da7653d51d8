"""The long tasks of the world. Each handler writes into the trail what it does, as it does it."""

import asyncio
import math
from functools import partial

from simulator.life import Life, lived
from simulator.wishes import SIGNAL
from standfast.app import Standfast
from standfast.context import Context
from standfast.errors import WaitTimeoutError
from standfast.model.backoff import Constant

NEVER = 1e9
"""Seconds after which a loop saves, whatever it has done: they are of real time, of which there is none here."""

FLUSHED_EVERY = 4
"""Items after which the handler that saves by itself makes sure of it."""


def declare_long(app: Standfast) -> None:
    """Declare the tasks."""

    @app.task(max_attempts=20, backoff=Constant(0.5))
    async def loop(ctx: Context, kind: str, items: int, every: int, seconds: float) -> str:
        """Go over items by `ctx.resume`."""
        with lived(ctx) as life:
            async for item in ctx.resume(range(items), every=every, seconds=NEVER):
                await _do(life, kind, item, items, seconds)
                life.world.trail.did(life.ref, item, every)
        return "done"

    @app.task(max_attempts=20, backoff=Constant(0.5))
    async def count(ctx: Context, kind: str, items: int, seconds: float) -> str:
        """Go over items by `ctx.cursor`."""
        with lived(ctx) as life:
            for item in range(await ctx.cursor.aload(0), items):
                await _do(life, kind, item, items, seconds)
                life.world.trail.did(life.ref, item, math.inf)
                ctx.cursor.save(item + 1)
                if item % FLUSHED_EVERY == 0:
                    await ctx.cursor.aflush()
                    life.world.trail.flushed(life.ref)
        return "done"

    @app.task(max_attempts=20, backoff=Constant(0.5))
    async def order(ctx: Context, kind: str, signals: int, timeout: float | None, seconds: float) -> str:
        """Take steps, between which people have to send signals."""
        with lived(ctx) as life:
            await _step(life, "charge", kind, seconds)
            for number in range(signals):
                try:
                    token = await ctx.await_for(SIGNAL, timeout=timeout)
                except WaitTimeoutError:
                    token = None
                life.world.trail.received(ctx.job_id, number, token)
                await _step(life, f"send-{number}", "ok", seconds)
            if seconds:
                await ctx.asleep_until(seconds)
                await _step(life, "thank", "ok", seconds)
        return "done"


async def _do(life: Life, kind: str, item: int, items: int, seconds: float) -> None:
    await asyncio.sleep(seconds)
    if item == items // 2:
        await life.act(kind)


async def _step(life: Life, name: str, kind: str, seconds: float) -> None:
    await life.ctx.astep(name, partial(_run_step, life, name, kind, seconds))
    life.world.trail.step_told(life.ref, name)


async def _run_step(life: Life, name: str, kind: str, seconds: float) -> None:
    life.world.trail.step_begins(life.ref, name)
    await asyncio.sleep(seconds)
    await life.act(kind)
