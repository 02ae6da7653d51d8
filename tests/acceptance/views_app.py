"""An app of long jobs that say what they do: progress, cursors, logs and files. They wait for a file to go on."""

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Annotated

from standfast import Context, Secret, Standfast

STORM = 20_000

LONG = 0.2
"""Seconds after which an attempt is no short one, of which no progress is stored."""

log = logging.getLogger("shop.orders")


def make_app(url: str | None = None) -> Standfast:
    app = Standfast(url)
    app.task(max_attempts=2, backoff=0.01)(import_orders)
    app.task(max_attempts=2, backoff=0.01)(aimport_orders)
    app.task(import_orders, name="import_isolated", isolation="process", max_attempts=2, backoff=0.01)
    app.task(pay)
    app.task(fall, isolation="process", max_attempts=2, backoff=0.01)
    app.task(fall, name="fall_with_all", max_attempts=1)
    return app


def import_orders(ctx: Context, gate: str) -> list[str]:
    """Save and say things, once more after a failure."""
    log.warning("begins with attempt %d", ctx.attempt)
    ctx.cursor.save({"page": ctx.attempt})
    ctx.cursor.flush()
    before = sorted(ctx.files)
    ctx.save_file("orders.csv", f"of attempt {ctx.attempt}".encode())
    source = Path(gate).with_name("source.txt")
    source.write_text("from a path")
    ctx.save_file("copy.txt", source)
    for number in range(STORM):
        ctx.progress(1, 3, f"order {number}")
    ctx.progress(1, 3, f"waiting in attempt {ctx.attempt}")
    while not Path(gate).exists():
        time.sleep(0.02)
    if ctx.attempt == 1:
        raise OSError("a pity")
    time.sleep(LONG)
    ctx.progress(3, 3, "all of them")
    return before


async def aimport_orders(ctx: Context, gate: str) -> list[str]:
    """Do the same as a coroutine."""
    ctx.log.warning("begins with attempt %d", ctx.attempt)
    ctx.cursor.save({"page": ctx.attempt})
    await ctx.cursor.aflush()
    before = sorted(await ctx.afiles())
    await ctx.asave_file("orders.csv", f"of attempt {ctx.attempt}".encode())
    await ctx.asave_file("copy.txt", b"from a path")
    for number in range(STORM):
        ctx.progress(1, 3, f"order {number}")
    ctx.progress(1, 3, f"waiting in attempt {ctx.attempt}")
    while not await asyncio.to_thread(Path(gate).exists):  # noqa: ASYNC110 - a file is no event
        await asyncio.sleep(0.02)
    if ctx.attempt == 1:
        raise OSError("a pity")
    await asyncio.sleep(LONG)
    ctx.progress(3, 3, "all of them")
    return before


def pay(ctx: Context, token: Annotated[str, Secret], gate: str) -> None:
    """Let a secret go wherever it can."""
    ctx.cursor.save({"token": token, "half": token[:9]})
    ctx.cursor.flush()
    ctx.progress(1, note=f"pays with {token}")
    log.warning("pays with %s", token)
    while not Path(gate).exists():
        time.sleep(0.02)


def fall(ctx: Context) -> None:
    """Take the process down after a last word."""
    log.warning("falls in attempt %d", ctx.attempt)
    os._exit(3)


app = make_app()
