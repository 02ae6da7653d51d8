"""An app of long jobs: loops that note each item that they have done in a file, which outlives `kill -9`."""

import asyncio
import os
import time
from pathlib import Path

from ledger import VARIABLE

from standfast import Context, Standfast

ATTEMPTS = 1_000


def make_app(url: str | None = None) -> Standfast:
    app = Standfast(url)
    for handler in (import_rows, aimport_rows):
        app.task(max_attempts=ATTEMPTS, backoff=0.01)(handler)
    app.task(max_attempts=ATTEMPTS, backoff=0.01, isolation="process", name="import_isolated")(import_rows)
    app.task(max_attempts=2, backoff=0.01, isolation="process", timeout=1.0)(hold_on)
    app.task(max_attempts=2, backoff=0.01, isolation="process", memory="128MB")(take_all)
    return app


def import_rows(rows: int, every: int, pause: float, ctx: Context) -> None:
    """Do each row, and write its number down."""
    note_start(ctx)
    with items_file() as file:
        for row in ctx.resume(range(rows), every=every):
            os.write(file.fileno(), b"%d\n" % row)
            time.sleep(pause)


async def aimport_rows(rows: int, every: int, pause: float, ctx: Context) -> None:
    """Do the same as a coroutine; rows are found again by their key."""
    note_start(ctx)
    with items_file() as file:
        async for row in ctx.resume(range(rows), key=lambda row: f"row-{row}", every=every):
            os.write(file.fileno(), b"%d\n" % row)
            await asyncio.sleep(pause)


def hold_on(ctx: Context) -> int:
    """Save a cursor, and then heed nothing any more."""
    found: int = ctx.cursor.load(default=0)
    if found:
        return found
    ctx.cursor.save(41)
    ctx.cursor.save(42)
    while True:
        time.sleep(1_000)


def take_all(ctx: Context) -> int:
    """Save a cursor, and then take more memory than there may be, bit by bit."""
    found: int = ctx.cursor.load(default=0)
    if found:
        return found
    ctx.cursor.save(43)
    taken = []
    while True:
        taken.append(os.urandom(4 * 1024**2))


def note_start(ctx: Context) -> None:
    """Say which process runs it."""
    with beside_ledger("starts").open("a") as file:
        file.write(f"{ctx.fence} {os.getpid()} {os.getppid()}\n")


def items_file():
    return beside_ledger("items").open("ab", buffering=0)


def beside_ledger(name: str) -> Path:
    return Path(os.environ[VARIABLE]).with_name(name)


app = make_app()
