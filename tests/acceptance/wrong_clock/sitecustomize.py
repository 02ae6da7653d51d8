"""Makes the wall clock of a process wrong, by as many seconds as the file says that WRONG_CLOCK names.

Python imports this module by its name at the start of every process that finds its folder on PYTHONPATH: so it is
in force in supervisors and in their children, before anything of ours is loaded. The file is read at each look at
the clock: whoever changes it sets the clock while the process runs. `time.clock_gettime` still tells the truth.
"""

import os
import time
from datetime import timedelta
from pathlib import Path

from standfast.model.clock import SystemClock

FILE = Path(os.environ["WRONG_CLOCK"])
NANOSECONDS = 1_000_000_000


def wrong_by() -> float:
    """Return by how many seconds the clock is ahead now."""
    return float(FILE.read_text())


_now, _time, _time_ns = SystemClock.now, time.time, time.time_ns
SystemClock.now = lambda clock: _now(clock) + timedelta(seconds=wrong_by())
time.time = lambda: _time() + wrong_by()
time.time_ns = lambda: _time_ns() + int(wrong_by() * NANOSECONDS)
