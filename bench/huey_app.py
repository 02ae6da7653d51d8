"""The same jobs for huey: HUEY_FILE is its database, HUEY_COUNT jobs make a drain, whose rate goes to HUEY_REPORT.

`fsync=True` is the durability that Holdfast always has; without it huey is faster, and a power loss takes what was
accepted last.
"""

import itertools
import os
import time
from pathlib import Path

from huey import SqliteHuey

huey = SqliteHuey(filename=os.environ["HUEY_FILE"], fsync=True)
_runs = itertools.count(1)
_began: list[float] = []


@huey.task()
def noop(n: int) -> None:  # noqa: ARG001 - a job has arguments
    """Do nothing; the last one reports how fast all of them were."""
    if not _began:
        _began.append(time.perf_counter())
    count = int(os.environ["HUEY_COUNT"])
    if next(_runs) == count:
        Path(os.environ["HUEY_REPORT"]).write_text(str(count / (time.perf_counter() - _began[0])))


@huey.task()
def when_started() -> int:
    """Return the time, in nanoseconds."""
    return time.time_ns()
