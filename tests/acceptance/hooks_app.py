"""An app with middleware and lifespans, which note in the ledger when they run; WRONG says what goes wrong."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from standfast import Context, Standfast

FOLDER = Path(__file__).resolve().parent
WRONG = os.environ.get("WRONG", "")
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5)
pool: list[str] = []
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def note(what: str) -> None:
    """Write one line into the ledger, in one write."""
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, json.dumps({"job": "", "what": what, "pid": os.getpid()}).encode() + b"\n")
    finally:
        os.close(file)


@app.lifespan
async def connections(its_app: Standfast) -> AsyncIterator[None]:
    """Open a pool, and close it."""
    assert its_app is app
    await asyncio.sleep(0)
    pool.append("open")
    note("pool opened")
    yield
    note("pool closed")


@app.lifespan
async def cache(_: Standfast) -> AsyncIterator[None]:
    """Warm a cache that needs the pool."""
    assert pool == ["open"]
    note("cache warmed")
    if WRONG == "setup":
        raise ConnectionError("the cache is cold")
    yield
    note("cache dropped")
    if WRONG == "teardown":
        raise ConnectionError("the cache is stuck")
    if WRONG == "endless":
        await asyncio.sleep(3600)


@app.middleware
async def per_tenant(ctx: Context, call_next: Any) -> Any:
    """Set the tenant that a job is for."""
    tenant.set(f"tenant of {ctx.task}")
    return await call_next()


@app.middleware
async def measured(_: Context, call_next: Any) -> Any:
    """Note when the handler begins and ends."""
    note("begins")
    try:
        return await call_next()
    finally:
        note("ends")


@app.task
async def pack() -> str:
    """Tell what it sees, on the event loop."""
    note("packs")
    return f"{tenant.get()}, pool {pool[0]}"


@app.task
def weigh() -> str:
    """Tell what it sees, in a thread."""
    note("weighs")
    return f"{tenant.get()}, pool {pool[0]}"


@app.task
def crash(ctx: Context) -> str:
    """Take the process down, the first time."""
    if ctx.fence == 1:
        while True:  # until the other one runs too, so that both are suspects
            note("crashes")
            if [path for path in FOLDER.glob("both-*") if path.name != f"both-{ctx.job_id}"]:
                os._exit(9)
            (FOLDER / f"both-{ctx.job_id}").touch()
            time.sleep(0.01)
    return "alone"
