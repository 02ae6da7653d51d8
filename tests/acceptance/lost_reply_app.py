"""An app over a store whose answers get lost on the way back: the call is committed, the caller never knows.

LOSE says which, as `verb:how:first,last`: the answers of these calls of the verb (counted from 1; of claims only
those that brought jobs) are lost; `how` is `error` (as a broken connection) or `silence` (as a dropped packet).
"""

import asyncio
import os
from importlib import import_module
from pathlib import Path

from standfast import Context, Standfast, StoreUnavailableError

FOLDER = Path(__file__).resolve().parent
BACKENDS = {"postgresql": ("postgres", "PostgresBackend"), "redis": ("redis", "RedisBackend")}

store, backend = BACKENDS.get(os.environ.get("STANDFAST_URL", "").partition(":")[0], ("sqlite", "SqliteBackend"))
Backend = getattr(import_module(f"standfast.stores.{store}.store"), backend)
"""The only one that is loaded: the others bring their drivers."""


class Wire:
    """The way to the store, on which chosen answers are lost."""

    def __init__(self, lose):
        self._arun = Backend.arun
        self._verb, self._how, calls = lose.split(":")
        first, last = calls.split(",")
        self._calls = range(int(first), int(last) + 1)
        self._count = 0

    async def arun(self, backend, verb):
        answer = await self._arun(backend, verb)
        if verb.name == self._verb and (verb.name != "claim" or answer.jobs):
            self._count += 1
            if self._count in self._calls:
                await self._lose(verb.name)
        return answer

    async def _lose(self, name):
        with (FOLDER / "lost").open("a") as file:
            file.write(f"{name}\n")
        if self._how == "error":
            raise StoreUnavailableError(f"the answer to {name} was lost")
        await asyncio.sleep(3600)


if "LOSE" in os.environ:  # in the child of a worker only: its supervisor imports no app
    wire = Wire(os.environ["LOSE"])
    Backend.arun = lambda backend, verb: wire.arun(backend, verb)  # noqa: PLW0108 - it must bind as a method

app = Standfast(
    f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5, store_timeout=1, concurrency=5, safety_poll=0.5
)


def note(ctx, what):
    """Write one effect into the ledger."""
    line = f'{{"job": "{ctx.job_id}", "fence": {ctx.fence}, "what": "{what}"}}\n'
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@app.task
async def pack(ctx: Context, order: int) -> int:
    """Done at once."""
    note(ctx, "packed")
    return order


@app.task(max_attempts=1)
async def ship(ctx: Context, order: int) -> int:
    """Done at once, and never twice."""
    note(ctx, "shipped")
    return order


@app.task(max_attempts=3, backoff=0)
async def knock(ctx: Context, order: int) -> int:
    """Fail once, then succeed."""
    note(ctx, "knocked")
    if ctx.attempt == 1:
        raise ConnectionError("nobody is in")
    return order
