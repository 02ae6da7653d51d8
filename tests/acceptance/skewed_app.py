"""An app whose workers live on a machine with a wrong clock: SKEW is by how many seconds it is ahead."""

import os
import time
from datetime import timedelta

from holdfast import Holdfast
from holdfast.clock import SystemClock

SKEW = timedelta(seconds=float(os.environ.get("SKEW", "0")))

if SKEW:
    right = SystemClock.now
    SystemClock.now = lambda clock: right(clock) + SKEW

app = Holdfast()


@app.task
async def when_started() -> float:
    """Return the time, by a clock that is right."""
    return time.time()
