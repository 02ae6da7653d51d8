"""An app whose workers may live on a machine with a wrong clock."""

import time

from standfast import Standfast

app = Standfast()


@app.task
async def when_started() -> tuple[float, float]:
    """Return the time, by a clock that is right and by the one that everybody in this process goes by."""
    return time.clock_gettime(time.CLOCK_REALTIME), time.time()
