"""The connections of a loop for one kind of call: one; another while that has more to send than goes at once."""

import asyncio
from collections.abc import Callable

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from standfast.errors import StandfastError
from standfast.store.redis.connect import Opened, hang_up
from standfast.store.redis.pipe import Pipe
from standfast.store.redis.wire import ClosedError
from standfast.store.threads import Handover, Threads, in_a_thread

MOST = 4
"""Connections, at most."""

_TRIES = 3
_OF_OPENING = (RedisError, OSError, StandfastError, RuntimeError, asyncio.CancelledError)
"""Errors of opening a connection. Any other comes from a signal handler, and is not raised to those who wait."""


class Pipes:
    """Gives out pipes within one loop. `open_one` opens a connection, in one of the threads."""

    def __init__(self, threads: Threads, open_one: Callable[[], Opened], timeout: float) -> None:
        self._threads = threads
        self._open_one = open_one
        self._timeout = timeout
        self._pipes: list[Pipe] = []
        self._opening: asyncio.Task[Pipe] | None = None
        self._connecting: Handover | None = None
        self._is_closed = False

    async def get(self, losses: int) -> Pipe:
        """Return a pipe for one call; one from before the last of so many losses is not used any more."""
        return self.ready(losses) or await self._another(losses)

    def ready(self, losses: int) -> Pipe | None:
        """Return a pipe, if one is open that has sent all that it was given."""
        for pipe in self._pipes:
            if pipe.losses >= losses and pipe.is_usable and not pipe.unsent:
                return pipe
        return None

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
            self._connecting.is_unwanted = True

    async def _another(self, losses: int) -> Pipe:
        for _ in range(_TRIES):
            pipe = await self._one_more(losses)
            if pipe is not None and pipe.is_usable:  # it may have been lost again before this caller's turn came
                return pipe
        raise RedisConnectionError("the connection was lost as soon as it was open")

    async def _one_more(self, losses: int) -> Pipe | None:
        """Return another pipe; None if a signal handler interrupted the task that opens it for all."""
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
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except BaseException as error:
            if _is_of_opening(error) or not _is_from(opening, error):
                raise
            return None

    async def _open(self) -> Pipe:
        if self._is_closed:
            raise ClosedError("the store was closed")
        self._connecting = connecting = Handover()
        opened: Opened | None = None
        pipe: Pipe | None = None
        try:
            wire, place, losses = opened = await in_a_thread(self._threads, self._open_one, hang_up, connecting)
            if self._is_closed:
                raise ClosedError("the store was closed meanwhile")  # noqa: TRY301 - what is open is closed below
            pipe = Pipe(wire, place, losses, self._timeout)
            pipe.watch()
            self._pipes.append(pipe)
        except BaseException:
            if pipe is not None:
                pipe.lose(RedisConnectionError("a signal handler interrupted the opening of the connection"))
            elif opened is not None:
                hang_up(opened)
            raise
        finally:
            self._connecting = None
        return pipe

    def _opened(self, opening: asyncio.Task[Pipe]) -> None:
        if self._opening is opening:
            self._opening = None
        if opening.cancelled():
            return
        error = opening.exception()  # whoever waits for it hears of it; all of them may be gone
        if error is not None and not _is_of_opening(error):
            told = {"message": "the opening of a connection to Redis was interrupted", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)


def _is_from(opening: asyncio.Task[Pipe], error: BaseException) -> bool:
    return opening.done() and not opening.cancelled() and opening.exception() is error


def _is_of_opening(error: BaseException) -> bool:
    return isinstance(error, _OF_OPENING) and not (isinstance(error, OSError) and error.errno is None)
