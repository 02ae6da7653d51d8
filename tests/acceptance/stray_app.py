"""An app whose handlers raise where nobody can hear it, or block the event loop."""

import asyncio
import ctypes
import os
import re
import threading
import time
from pathlib import Path
from typing import Annotated

from standfast import Constant, Context, Standfast
from standfast.model.secrets import Secret
from standfast.worker import execution
from standfast.worker.progress import Reporter

FOLDER = Path(__file__).resolve().parent
app = Standfast(os.environ.get("STRAY_URL") or f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5)
execution.STUCK_AFTER = 1.0


@app.task
async def nothing() -> None:
    """Be one of the others."""


def raise_in_thread() -> None:
    raise ValueError("raised in a thread")


@app.task
def start_thread() -> None:
    thread = threading.Thread(target=raise_in_thread, name="courier")
    thread.start()
    thread.join()


@app.task
async def start_thread_from_coroutine(token: Annotated[str, Secret]) -> None:
    def tell_token() -> None:
        password, order = "hunter2-hunter2", 42  # noqa: F841 - found in the frame
        raise ValueError(f"the token is {token}")

    thread = threading.Thread(target=tell_token)
    thread.start()
    await asyncio.to_thread(thread.join)


def raise_in_callback() -> None:
    raise ValueError("raised in a callback")


@app.task
async def schedule_callback() -> None:
    asyncio.get_running_loop().call_soon(raise_in_callback)


async def raise_in_task() -> None:
    raise ValueError("raised in a task")


@app.task
async def start_task_and_forget() -> None:
    task = asyncio.create_task(raise_in_task(), name="procedure")
    await asyncio.wait([task])


class Fragile:
    """Fails when it is let go."""

    def __del__(self) -> None:
        raise ValueError("raised in __del__")


@app.task
async def let_go() -> None:
    Fragile()


@app.task
async def never_await() -> None:
    raise_in_task()


@app.task
async def flood(times: int) -> None:
    """Raise in callbacks, a thousand at a time."""
    for _ in range(times // 1000):
        for _ in range(1000):
            asyncio.get_running_loop().call_soon(raise_in_callback)
        await asyncio.sleep(0)


@app.task
async def sleep_on_the_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - the mistake that is to be named


@app.task
async def burn_on_the_loop(seconds: float) -> None:
    """Use the processor and let no other thread run: as a large sort or a bad pattern does."""
    ends_at = time.thread_time() + seconds
    while time.thread_time() < ends_at:
        re.fullmatch("(a|aa)+b", "a" * 31)


@app.task
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.task(timeout=0.5, backoff=Constant(0))
def ignore_timeout(ctx: Context) -> None:
    """Go on for ever the first time, as a call does that cannot be interrupted."""
    while ctx.fence == 1:
        ctypes.CDLL(None).usleep(10_000)


@app.task
async def sabotage(ctx: Context) -> None:
    """Let a loop of the worker's own fail from now on."""

    async def fail(_reporter: Reporter) -> None:
        raise RuntimeError("sabotage")

    if ctx.fence == 1:
        Reporter._mark_long_ones = fail
    await asyncio.sleep(3)
