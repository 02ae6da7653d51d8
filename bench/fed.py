"""Lets there always be jobs to drain, from a process of its own: whoever is measured does not wait for it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from standfast import Standfast
from standfast.model.states import State

BACKLOG = 20_000
"""So many jobs are always waiting, about."""

_AT_ONCE = BACKLOG // 4
_PAUSE = 0.2
_PATIENCE = 60


@contextmanager
def fed(url: str) -> Iterator[None]:
    """Let there be jobs to drain for as long as this lasts."""
    feeder = subprocess.Popen([sys.executable, __file__], env={**os.environ, "BENCH_URL": url})
    try:
        yield
    finally:
        feeder.terminate()
        feeder.wait(_PATIENCE)


def _feed(url: str) -> None:
    with Standfast(url=url) as app:

        @app.task
        async def noop(n: int) -> None:
            """Do nothing."""

        while True:
            ready = sum(queue.states.get(State.READY, 0) for queue in app.call(app.verbs.queues()))
            if ready < BACKLOG:
                noop.enqueue_many({"n": number} for number in range(_AT_ONCE))
            time.sleep(_PAUSE)


if __name__ == "__main__":
    _feed(os.environ["BENCH_URL"])
