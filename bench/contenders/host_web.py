"""A web app with a heavy mix of jobs in its process: BENCH_MODE says whether there are any, and whether gates hold.

A request waits for a pretended database and renders a page; jobs keep the interpreter busy, wait, and make JSON.
With gates one at a time may keep it busy, and threads take shorter turns, as docs/howto/share-the-machine.md says.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from standfast import Standfast
from standfast.hosts.asgi import lifespan
from standfast.schedules.adaptive import TURN

MODE = os.environ["BENCH_MODE"]
AT_ONCE = 8
JOBS = 300 + 40 * int(os.environ["BENCH_REQUESTS"])
"""More than can be done while so many requests are answered."""

QUERY = 0.02
WARM = 2.0
"""Seconds for a gate to find out what the process can bear."""

ROWS = [{"id": number, "name": f"customer {number}", "orders": list(range(10))} for number in range(100)]

app = Standfast(concurrency=AT_ONCE)
gated = MODE in {"gated", "gated, long turns"}
busy = app.gate("interpreter", 1) if gated else None
turn = None if MODE == "gated, long turns" else TURN
adaptive = app.adaptive(lag=0.01, lowest=1, turn=turn) if gated else None
done = 0


def ended() -> None:
    """Count one job."""
    global done  # noqa: PLW0603 - it is the figure that is measured
    done += 1


@app.task(gate=busy)
def count(until: int) -> None:
    """Keep the interpreter busy for some tens of milliseconds."""
    sum(number * number for number in range(until))
    ended()


@app.task(gate=busy)
def write(rows: int) -> None:
    """Make JSON and read it again."""
    json.loads(json.dumps(ROWS * rows))
    ended()


@app.task
async def fetch(seconds: float) -> None:
    """Wait for somebody else."""
    await asyncio.sleep(seconds)
    ended()


@asynccontextmanager
async def serve(web: Starlette) -> AsyncIterator[None]:
    """Have jobs wait before the worker starts."""
    if MODE != "idle":
        for task, given in ((count, {"until": 300_000}), (write, {"rows": 20}), (fetch, {"seconds": 0.05})):
            await asyncio.to_thread(task.enqueue_many, [given] * (JOBS // 3))
    if adaptive:
        adaptive.watch_loop(asyncio.get_running_loop())
    async with lifespan(app)(web):
        yield


async def page(_: Request) -> PlainTextResponse:
    """Ask a pretended database, and render what it says."""
    await asyncio.sleep(QUERY)
    return PlainTextResponse(json.dumps(ROWS))


async def warm(_: Request) -> PlainTextResponse:
    """Answer when jobs are under way for a while, if there are any."""
    while MODE != "idle" and done < AT_ONCE:  # noqa: ASYNC110 - jobs end in other threads
        await asyncio.sleep(0.05)
    await asyncio.sleep(WARM)
    return PlainTextResponse("warm")


async def tell_done(_: Request) -> PlainTextResponse:
    """Tell how many jobs are done."""
    return PlainTextResponse(str(done))


web = Starlette(routes=[Route("/", page), Route("/warm", warm), Route("/done", tell_done)], lifespan=serve)
