"""A connection on an event loop: calls go out one behind the other, and their replies come back in that order.

Nobody waits for anybody else: a call is sent as soon as it is made. So one connection is enough for all callers of
a loop, unless one of them sends more than the network takes at once.

A signal handler may raise between any two steps. Code that changes what calls and replies share sets a mark
(`_is_amid`) before and removes it after. The next code that finds the mark set closes the connection, because it is
not known whose the next reply would be.
"""

import asyncio
import math
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from standfast.errors import StandfastError
from standfast.stores.redis.connect import NOT_YET, ClosedError, NotSentError, Opened, Wire, hang_up, lost, packed
from standfast.stores.redis.url import Endpoint
from standfast.stores.threads import Handover, Reply, Threads, in_a_thread
from standfast.stores.verb import Access

_Pending = Reply[Any]


class Pipe:
    """An open connection that one event loop watches, for use within that loop alone.

    Whoever waits for a reply gets one or an error: while somebody waits a watchdog runs, and one that is lost tells
    all who wait and takes no more calls.

    `losses` is how often the server had been lost when it was opened: one from before a loss may lead nowhere.
    """

    def __init__(self, wire: Wire, place: Endpoint, losses: int, timeout: float) -> None:
        self.place = place
        self.losses = losses
        self._wire = wire
        self._socket = wire.socket
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._awaited = deque[tuple[_Pending, float]]()
        self._moved_at = -math.inf
        self._unsent = bytearray()
        self._watchdog: asyncio.TimerHandle | None = None
        self._looks_at = -math.inf
        self._waking: tuple[_Pending, Any] | None = None
        self._is_amid = False
        self._is_closing = False
        self._is_over = False
        self.is_open = True
        """Whether it is there; one that is closing may still have replies to come."""
        self._socket.setblocking(False)

    def watch(self) -> None:
        """Let the loop watch it, before the first call. From then on `lose` has to be called at its end."""
        self._loop.add_reader(self._socket, self._readable)

    @property
    def is_usable(self) -> bool:
        """Whether a call may be made, as far as is known without one."""
        if self._is_amid:
            self.lose(_interrupted())
        elif self.is_open and not self._awaited and self._wire.has_news:
            self.lose(RedisConnectionError("the server has hung up"))
        return self.is_open and not self._is_closing

    @property
    def unsent(self) -> int:
        """How many bytes still wait here to be sent."""
        return len(self._unsent)

    async def ask(self, words: tuple[Any, ...]) -> Any:
        """Send a command and return its reply. Raises it if it is an error, or RedisError once the pipe is lost.

        That is a NotSentError if the server does not run the command.
        """
        command = packed(words)
        if self._is_amid or not self.is_open:
            self.lose(_interrupted())
            raise NotSentError("the connection was lost before")
        reply = _Pending(loop=self._loop)
        self._is_amid = True
        try:
            self._begin(reply, command)
            self._is_amid = False
        except BaseException:
            reply.cancel()
            self.lose(_interrupted())
            raise
        if not self.is_open and (error := reply.exception()) is not None:
            raise NotSentError(str(error)) from error
        try:
            return await reply
        except asyncio.CancelledError:
            if self._is_closing:
                self.close()  # the loop may be about to end, and then nobody would read the reply
            raise
        finally:
            reply.is_heard = True

    def close(self) -> None:
        """Take no more calls, and hang up when nobody waits for a reply any more."""
        self._is_closing = True
        if all(reply.done() for reply, _ in self._awaited):
            self.lose(RedisConnectionError("nobody needs it"))

    def lose(self, error: RedisError) -> None:
        """Hang up; all who wait for a reply get the error, unless the loop is closed and they are no more.

        If that is interrupted, the loop does the rest: it watches the socket to the end, and a socket that is shut
        down is readable.
        """
        if self._is_over:
            return
        self.is_open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._loop.is_closed():
            if self._waking is not None and self._waking[0].done():
                self._loop.call_soon(self._waking[0].wake, self._waking[1])
            for reply, _ in self._awaited:
                if not reply.done():
                    self._waking = reply, reply.wakers
                    reply.set_exception(_own(error))
                    self._waking = None
            if self._watchdog is not None:
                self._watchdog.cancel()
            self._loop.remove_writer(self._socket)
            self._loop.remove_reader(self._socket)
        self._is_over = True
        self._awaited.clear()
        self._wire.close()

    def _begin(self, reply: _Pending, command: bytes) -> None:
        now = self._loop.time()
        if self._looks_at <= now:
            self._look_after(self._timeout)
        self._awaited.append((reply, now))
        if self._unsent:
            self._unsent += command
        else:
            self._send(command)

    def _send(self, command: bytes) -> None:
        try:
            sent = self._socket.send(command)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.lose(lost(error, self._socket))
            return
        if sent < len(command):
            self._unsent += memoryview(command)[sent:]
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        if self._is_broken():
            return
        self._is_amid = True
        try:
            del self._unsent[: self._socket.send(self._unsent)]
            self._moved_at = self._loop.time()
            if not self._unsent:
                self._loop.remove_writer(self._socket)
            self._is_amid = False
        except BlockingIOError:
            self._is_amid = False
        except OSError as error:
            self.lose(lost(error, self._socket))
        except BaseException:
            self.lose(_interrupted())
            raise

    def _readable(self) -> None:
        if self._is_broken():
            return
        self._is_amid = True
        try:
            self._wire.receive()
            self._moved_at = self._loop.time()
            self._hand_out()
            self._is_amid = False
        except RedisTimeoutError:  # there was nothing
            self._is_amid = False
        except RedisError as error:
            self.lose(error)
        except BaseException:
            self.lose(_interrupted())
            raise
        if self._is_closing:
            self.close()

    def _is_broken(self) -> bool:
        """Tell whether the last call on it was interrupted, or it is closed. If so, finish the closing."""
        if self._is_amid or not self.is_open:
            self.lose(_interrupted())
            return True
        return False

    def _hand_out(self) -> None:
        """Give the replies that are complete to those who asked."""
        reader, awaited = self._wire.reader, self._awaited
        while (answer := reader.gets()) is not NOT_YET:
            if not awaited:
                raise RedisConnectionError("the server says what nobody asked for")
            reply, _ = awaited[0]
            if not reply.done():  # else whoever asked was cancelled
                self._waking = reply, reply.wakers
                if isinstance(answer, Exception):
                    reply.set_exception(answer)
                else:
                    reply.set_result(answer)
                self._waking = None
            awaited.popleft()

    def _watch(self) -> None:
        """Lose the connection if nothing has moved for too long; else look again when that would be so."""
        self._look_after(self._timeout)  # first, as the rest may be interrupted
        if self._left <= 0:
            self._readable()  # maybe it was this loop that stood still, and the reply is there
        if self._is_broken():
            return
        if (left := self._left) <= 0:
            self.lose(RedisTimeoutError("the server does not answer"))
        elif self._awaited:
            self._look_after(left)
        elif self._watchdog is not None:
            self._looks_at = -math.inf
            self._watchdog.cancel()

    def _look_after(self, seconds: float) -> None:
        """Plan the next look whether the server answers, in place of the one that was planned before."""
        before = self._watchdog
        self._watchdog = self._loop.call_later(seconds, self._watch)
        self._looks_at = self._watchdog.when()
        if before is not None:
            before.cancel()

    @property
    def _left(self) -> float:
        """How many seconds the server still has for the oldest call, since it was made or a part went or came."""
        _, asked_at = self._awaited[0] if self._awaited else (None, math.inf)
        return max(asked_at, self._moved_at) + self._timeout - self._loop.time()


def _interrupted() -> RedisConnectionError:
    return RedisConnectionError("a signal handler interrupted a call on this connection")


def _own(error: RedisError) -> RedisError:
    """Return a copy of an error for one caller: whether its call may be stored differs between callers."""
    own: RedisError = type(error)(*error.args)
    own.__cause__ = own.__context__ = error
    return own


# The connections of a loop for one kind of call: one; another while that has more to send than goes at once.

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


# The connections of the event loops of one process. Each loop has its own, as what it watches is nobody else's.

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
