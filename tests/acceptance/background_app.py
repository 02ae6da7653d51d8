"""An app with work in its background: as a script it is a server that SIGTERM ends; its jobs sleep."""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

from standfast import Context, Interrupted, Life, Secret, Standfast

FOLDER = Path(__file__).resolve().parent
LONG = 50.0

app = Standfast(
    f"sqlite:///{FOLDER}/jobs.db",
    beat=0.25,
    grace=float(os.environ.get("BACKGROUND_GRACE", "30")),
    incidents_dir=FOLDER / "incidents",
    background_limit=4,
)


def note(what: str, job: str = "") -> None:
    """Write down what was done."""
    with (FOLDER / "ledger").open("a") as file:
        file.write(json.dumps({"what": what, "job": job}) + "\n")


def heed(life: Life, name: str) -> None:
    """Sleep until told, and tidy up."""
    note(f"{name} began")
    try:
        life.sleep(LONG)
    except Interrupted:
        note(f"{name} tidied up")
        raise


async def aheed(life: Life, name: str) -> None:
    """Likewise, and tidying up takes its time."""
    note(f"{name} began")
    try:
        await life.asleep(LONG)
    except Interrupted:
        await asyncio.sleep(0.05)
        note(f"{name} tidied up")
        raise


async def ignore(name: str) -> None:
    """Do not look, and be cancelled."""
    note(f"{name} began")
    try:
        await asyncio.sleep(LONG)
    finally:
        note(f"{name} was cancelled")


def be_stubborn() -> None:
    """Go on whatever comes."""
    note("stubborn began")
    threading.Event().wait(LONG)


def fail(life: Life, token: Annotated[str, Secret]) -> None:
    """Fail when told to end, and say a secret."""
    note("fail began")
    try:
        life.sleep(LONG)
    except Interrupted:
        raise ConnectionError(f"refused for {token}") from None


@app.task
def sleep(ctx: Context) -> None:
    note("sleep began", ctx.job_id)
    try:
        ctx.sleep(LONG)
    except Interrupted:
        note("sleep was woken", ctx.job_id)
        raise


@app.task(isolation="process")
def sleep_alone(ctx: Context) -> None:
    sleep.fn(ctx)


@app.task
async def asleep(ctx: Context) -> None:
    note("sleep began", ctx.job_id)
    try:
        await ctx.asleep(LONG)
    except Interrupted:
        note("sleep was woken", ctx.job_id)
        raise


@app.task
def begin_work() -> None:
    app.background(heed, "work of a job")


@app.task
def double(number: int) -> int:
    return 2 * number


def serve() -> None:
    """Be a server with threads."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    app.background(heed, "thread")
    app.background(aheed, "coroutine")
    app.background.options(name="stubborn")(be_stubborn)
    app.background(fail, "open-sesame-1234")
    while True:
        signal.pause()


async def aserve() -> None:
    """Be a server on an event loop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app.background(heed, "thread")
    app.background(aheed, "coroutine")
    app.background(ignore, "sleeper")
    await stop.wait()
    await app.aclose()
    note("closed")


if __name__ == "__main__":
    if sys.argv[1] == "threads":
        serve()
    asyncio.run(aserve())
