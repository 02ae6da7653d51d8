"""The connections of the event loops of one process. Each loop has its own, as what it watches is nobody else's."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from holdfast.store.redis.pipes import Opened, Pipes
from holdfast.store.redis.threads import ClosedError
from holdfast.store.verb import Access

Lanes = Mapping[Access, Pipes]

CAN_WATCH = sys.platform != "win32"
"""Whether event loops can watch sockets; the usual one on Windows cannot."""


class Loops:
    """Finds the connections of the running loop. `open_one` opens one, in a thread of its lane."""

    def __init__(self, threads: Mapping[Access, Executor], open_one: Callable[[], Opened], timeout: float) -> None:
        self._threads = threads
        self._open_one = open_one
        self._timeout = timeout
        self._lanes: dict[asyncio.AbstractEventLoop, Lanes] = {}
        self._is_closed = False

    def pipes(self, access: Access) -> Pipes:
        """Return the connections of a lane in the running loop."""
        loop = asyncio.get_running_loop()
        lanes = self._lanes.get(loop)
        return (lanes or self._begin(loop))[access]

    def close(self) -> None:
        """Let go of all connections, whichever thread their loops run in, after the replies to come."""
        self._is_closed = True
        for loop in list(self._lanes):
            lanes = self._lanes.pop(loop, {})
            for pipes in lanes.values():
                _close(loop, pipes)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> Lanes:
        for other in [other for other in list(self._lanes) if other.is_closed()]:
            for pipes in self._lanes.pop(other, {}).values():
                pipes.abandon()
        lanes = {access: Pipes(threads, self._open_one, self._timeout) for access, threads in self._threads.items()}
        self._lanes[loop] = lanes
        if self._is_closed:  # asked only now, as another thread may have looked for lanes to close just before
            del self._lanes[loop]
            raise ClosedError("the store was closed")
        return lanes


def _close(loop: asyncio.AbstractEventLoop, pipes: Pipes) -> None:
    if loop.is_running():
        try:
            loop.call_soon_threadsafe(pipes.close)
        except RuntimeError:  # closed meanwhile
            pipes.abandon()
    else:
        pipes.abandon()
