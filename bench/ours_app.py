"""The app that is measured. Its store is named by HOLDFAST_URL."""

import time

from holdfast import Holdfast

app = Holdfast()


@app.task
async def noop(n: int) -> None:
    """Do nothing, as a coroutine."""


@app.task
def noop_in_a_thread(n: int) -> None:
    """Do nothing, as a plain function."""


@app.task
async def when_started() -> int:
    """Return the time, in nanoseconds."""
    return time.time_ns()
