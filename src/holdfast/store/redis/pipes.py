"""The connections of a loop for one kind of call: one; another while that has more to send than goes at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future

from redis.exceptions import ConnectionError as RedisConnectionError

from holdfast.store.redis.pipe import Pipe
from holdfast.store.redis.threads import ClosedError, Opened, hang_up, submit

MOST = 4
_TRIES = 3


class Pipes:
    """Gives out pipes within one loop. `open_one` opens a connection, in one of the threads."""

    def __init__(self, threads: Executor, open_one: Callable[[], Opened], timeout: float) -> None:
        self._threads = threads
        self._open_one = open_one
        self._timeout = timeout
        self._pipes: list[Pipe] = []
        self._opening: asyncio.Task[Pipe] | None = None
        self._connecting: Future[Opened] | None = None
        self._is_closed = False

    async def get(self, losses: int) -> Pipe:
        """Return a pipe for one call; one from before the last of so many losses is not used any more."""
        for pipe in self._pipes:
            if pipe.losses >= losses and pipe.is_usable and not pipe.unsent:
                return pipe
        for _ in range(_TRIES):
            pipe = await self._another(losses)
            if pipe.is_usable:  # it may have been lost again before this caller's turn came
                return pipe
        raise RedisConnectionError("the connection was lost as soon as it was open")

    def close(self) -> None:
        """Take no more calls; hang up when those that were made are answered, or the server does not answer."""
        self._refuse()
        for pipe in self._pipes:
            pipe.close()

    def abandon(self) -> None:
        """Hang up at once: the loop does not run, and may never do so again."""
        self._refuse()
        for pipe in self._pipes:
            pipe.lose(ClosedError("the store was closed"))

    def _refuse(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.add_done_callback(hang_up)

    async def _another(self, losses: int) -> Pipe:
        for pipe in self._pipes:
            if pipe.losses < losses:
                pipe.close()
        self._pipes = [pipe for pipe in self._pipes if pipe.is_open]
        usable = [pipe for pipe in self._pipes if pipe.is_usable]
        if len(usable) >= MOST:
            return min(usable, key=lambda pipe: pipe.unsent)
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def _open(self) -> Pipe:
        if self._is_closed:
            raise ClosedError("the store was closed")
        self._connecting = connecting = submit(self._threads, self._open_one)
        try:
            wire, place, losses = await asyncio.wrap_future(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(hang_up)
            raise
        finally:
            self._connecting = None
        if self._is_closed:
            raise ClosedError("the store was closed meanwhile")
        pipe = Pipe(wire, place, losses, self._timeout)
        self._pipes.append(pipe)
        return pipe

    def _opened(self, opening: asyncio.Task[Pipe]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waits for it hears of it; all of them may be gone
