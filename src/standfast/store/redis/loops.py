"""The connections of the event loops of one process. Each loop has its own, as what it watches is nobody else's."""

import asyncio
import sys
from collections.abc import Callable, Mapping

from standfast.store.redis.connect import Opened
from standfast.store.redis.pipes import Pipes
from standfast.store.redis.wire import ClosedError
from standfast.store.threads import Threads
from standfast.store.verb import Access

_PipesOfLoop = Mapping[Access, Pipes]

CAN_WATCH = sys.platform != "win32"
"""Whether event loops can watch sockets; the usual one on Windows cannot."""


class Loops:
    """Finds the connections of the running loop. `open_one` opens one, in a thread for its kind of call."""

    def __init__(self, threads: Mapping[Access, Threads], open_one: Callable[[], Opened], timeout: float) -> None:
        self._threads = threads
        self._open_one = open_one
        self._timeout = timeout
        self._pipes: dict[asyncio.AbstractEventLoop, _PipesOfLoop] = {}
        self._is_closed = False

    def pipes(self, access: Access) -> Pipes:
        """Return the connections of the running loop for a kind of call."""
        loop = asyncio.get_running_loop()
        pipes = self._pipes.get(loop)
        return (pipes or self._begin(loop))[access]

    def close(self) -> None:
        """Let go of all connections, whichever thread their loops run in, after the replies to come."""
        self._is_closed = True
        for loop in list(self._pipes):
            for pipes in self._pipes.pop(loop, {}).values():
                _close(loop, pipes)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> _PipesOfLoop:
        for other in [other for other in list(self._pipes) if other.is_closed()]:
            for pipes in self._pipes.pop(other, {}).values():
                pipes.abandon()
        own = {access: Pipes(threads, self._open_one, self._timeout) for access, threads in self._threads.items()}
        self._pipes[loop] = own
        if self._is_closed:  # asked only now, as another thread may have looked for pipes to close just before
            self._pipes.pop(loop, None)
            raise ClosedError("the store was closed")
        return own


def _close(loop: asyncio.AbstractEventLoop, pipes: Pipes) -> None:
    if loop.is_running():
        try:
            loop.call_soon_threadsafe(pipes.close)
        except RuntimeError:  # closed meanwhile
            pipes.abandon()
    else:
        pipes.abandon()
