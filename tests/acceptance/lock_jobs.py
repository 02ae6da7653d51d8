"""An app whose handlers hold locks."""

import ctypes
import os
import signal
from pathlib import Path

from standfast import Standfast
from standfast.durable.lockstate import look_at_all

TTL = 3
"""Seconds: long enough that a supervisor on a busy machine renews in time."""

app = Standfast(os.environ["STANDFAST_URL"])


@app.task
def hog(seconds: int, told: str) -> None:
    """Hold a lock, and the interpreter for longer than its ttl; then say whether the lock is still held."""
    with app.lock("hog", ttl=TTL) as lock:
        ctypes.PyDLL(None).sleep(seconds)
        Path(told).write_text(f"held={lock.held} lost={lock.lost}")


@app.task
async def async_hog(seconds: int, told: str) -> None:
    """Do the same on the event loop."""
    async with app.lock("hog", ttl=TTL) as lock:
        ctypes.PyDLL(None).sleep(seconds)
        Path(told).write_text(f"held={lock.held} lost={lock.lost}")  # noqa: ASYNC240 - it blocks on purpose


@app.task(max_attempts=1)
def die(told: str) -> None:
    """Hold a lock with a long ttl, and take the whole process down."""
    app.lock("die", ttl=600).acquire()
    _, rolls = app.call(look_at_all(app.verbs))
    written = Path(told).with_suffix(".new")
    written.write_text(rolls["die"].holders[0].owner)
    written.rename(told)
    os.kill(os.getpid(), signal.SIGKILL)
