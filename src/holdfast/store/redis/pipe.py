"""A connection on an event loop: calls go out one behind the other, and their replies come back in that order.

Nobody waits for anybody else: a call is sent as soon as it is made. So one connection is enough for all callers of
a loop, unless one of them sends more than the network takes at once.
"""

import asyncio
import math
from collections import deque
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from holdfast.store.redis.address import Place
from holdfast.store.redis.wire import NOT_YET, Wire, lost, packed


class Pipe:
    """An open connection that one event loop watches, for use within that loop alone.

    Whoever waits for a reply gets one or an error: while somebody waits a watchdog runs, and one that is lost tells
    all who wait and takes no more calls.

    `losses` is how often the server had been lost when it was opened: one from before a loss may lead nowhere.
    """

    def __init__(self, wire: Wire, place: Place, losses: int, timeout: float) -> None:
        self.place = place
        self.losses = losses
        self._wire = wire
        self._socket = wire.socket
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._awaited = deque[tuple[asyncio.Future[Any], float]]()
        self._moved_at = -math.inf
        self._unsent = bytearray()
        self._watchdog: asyncio.TimerHandle | None = None
        self._is_closing = False
        self.is_open = True
        """Whether it is there; one that is closing may still have replies to come."""
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._readable)

    @property
    def is_usable(self) -> bool:
        """Whether a call may be made, as far as is known without one."""
        if self.is_open and not self._awaited and self._wire.has_news:
            self.lose(RedisConnectionError("the server has hung up"))
        return self.is_open and not self._is_closing

    @property
    def unsent(self) -> int:
        """How many bytes still wait here to be sent."""
        return len(self._unsent)

    async def ask(self, words: tuple[Any, ...]) -> Any:
        """Send a command and return its reply. Raises it if it is an error, or RedisError once the pipe is lost."""
        if not self.is_open:
            raise RedisConnectionError("the connection was lost before")
        command = packed(words)
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(self._timeout, self._watch)
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._awaited.append((reply, self._loop.time()))
        if self._unsent:
            self._unsent += command
        else:
            self._send(command)
        try:
            return await reply
        except asyncio.CancelledError:
            if self._is_closing:
                self.close()  # the loop may be about to end, and then nobody would read the reply
            raise

    def close(self) -> None:
        """Take no more calls, and hang up when nobody waits for a reply any more."""
        self._is_closing = True
        if all(reply.done() for reply, _ in self._awaited):
            self.lose(RedisConnectionError("nobody needs it"))

    def lose(self, error: RedisError) -> None:
        """Hang up; all who wait for a reply get the error, unless the loop is closed and they are no more."""
        if not self.is_open:
            return
        self.is_open = False
        if not self._loop.is_closed():
            for reply, _ in self._awaited:
                if not reply.done():
                    reply.set_exception(error)
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._watchdog is not None:
                self._watchdog.cancel()
        self._awaited.clear()
        self._wire.close()

    def _send(self, command: bytes) -> None:
        try:
            sent = self._socket.send(command)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.lose(lost(error))
            return
        if sent < len(command):
            self._unsent += memoryview(command)[sent:]
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(lost(error))
            return
        self._moved_at = self._loop.time()
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            self._wire.receive()
            self._moved_at = self._loop.time()
            self._hand_out()
        except RedisTimeoutError:
            return  # there was nothing
        except RedisError as error:
            self.lose(error)
        except BaseException:  # of a signal's handler, and nobody knows whose reply was in its hands
            self.lose(RedisConnectionError("interrupted amid a reply"))
            raise
        if self._is_closing:
            self.close()

    def _hand_out(self) -> None:
        """Give the replies that are complete to those who asked."""
        reader, awaited = self._wire.reader, self._awaited
        while (answer := reader.gets()) is not NOT_YET:
            if not awaited:
                raise RedisConnectionError("the server says what nobody asked for")
            reply, _ = awaited[0]
            if reply.done():  # whoever asked was cancelled
                pass
            elif isinstance(answer, Exception):
                reply.set_exception(answer)
            else:
                reply.set_result(answer)
            awaited.popleft()

    def _watch(self) -> None:
        """Lose the connection if nothing has moved for too long; else look again when that would be so."""
        if self._left <= 0:
            self._readable()  # maybe it was this loop that stood still, and the reply is there
        if not self._awaited:
            self._watchdog = None
        elif (left := self._left) > 0:
            self._watchdog = self._loop.call_later(left, self._watch)
        else:
            self.lose(RedisTimeoutError("the server does not answer"))

    @property
    def _left(self) -> float:
        """How many seconds the server still has for the oldest call, since it was made or a part went or came."""
        _, asked_at = self._awaited[0] if self._awaited else (None, math.inf)
        return max(asked_at, self._moved_at) + self._timeout - self._loop.time()
