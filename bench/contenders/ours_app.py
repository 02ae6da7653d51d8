"""The app that is measured. Its store is named by STANDFAST_URL."""

import os
import time

from measured import TALLY

from standfast import Standfast

app = Standfast()
without_tasks = Standfast()
"""An older release, say, which knows none of the tasks below."""

if (tracing := os.environ.get("BENCH_TRACING", "off")) != "off":
    from traced import trace

    trace(app, tracing)


@app.task
async def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing, as a coroutine."""
    TALLY.tick()


@app.task
def noop_in_a_thread(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing, as a plain function."""
    TALLY.tick()


@app.task
async def timed(since: float) -> None:
    """Note the time since then."""
    TALLY.note(time.time() - since)
