"""A connection as this store uses it: a command goes out, its reply comes in.

The library opens it: name, TLS, login, database. What it would do around every call after that takes longer than
the call: so from then on it only holds the socket, and the parser is fed here.
"""

import select
import socket
import ssl
import struct
import sys
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, InvalidResponse, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from standfast.store.brief import refuse_foreign

_TEXTS = frozenset({str, bytes})
_NUMBERS = (int, float)
_AT_ONCE = 65_536

_TIMED_OUT = frozenset({"timed out", "The read operation timed out", "The write operation timed out"})
"""The texts of Python's own TimeoutErrors of sockets, which have no `errno`."""

NOT_YET: Any = object()
"""What a reader has for a reply that is not complete."""


class ClosedError(RedisError):
    """The store was closed while somebody still used it."""


class NotSentError(RedisConnectionError):
    """The server has received at most a part of the command, and does not run it."""


def packed(words: tuple[Any, ...]) -> bytes:
    """Return a command as it is sent. hiredis crashes where a signal handler raises while it writes a number."""
    command: Any = words
    if not _TEXTS.issuperset(map(type, words)):
        command = tuple([str(word) if type(word) in _NUMBERS else word for word in words])
    try:
        return hiredis.pack_command(command)  # type: ignore[no-any-return] # it does not say what it returns
    except TypeError as error:
        raise DataError(str(error)) from error


class Wire:
    """A connection that the library has opened. Each wait has a limit of `timeout` seconds."""

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self.socket: socket.socket = connection._sock  # noqa: SLF001 - the library shows it to nobody
        limit_waits(self.socket, timeout)
        self._news = _news_of(self.socket)
        self._buffer = bytearray(_AT_ONCE)
        self.reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,  # noqa: SLF001 - likewise
            notEnoughData=NOT_YET,
        )

    def send(self, words: tuple[Any, ...]) -> None:
        """Send a command. If that fails, the server has at most a part of it and does not run it."""
        command = packed(words)
        try:
            self.socket.sendall(command)
        except OSError as error:
            raise lost(error, self.socket) from error

    def read(self) -> Any:
        """Wait for the next reply. Raises it if it is an error."""
        reader = self.reader
        while (reply := reader.gets()) is NOT_YET:
            self.receive()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def ask(self, *words: Any) -> Any:
        """Send a command and return its reply."""
        self.send(words)
        return self.read()

    def receive(self) -> None:
        """Take in what has come, or wait for it."""
        try:
            size = self.socket.recv_into(self._buffer)
        except OSError as error:
            raise lost(error, self.socket) from error
        if not size:
            raise RedisConnectionError("the server has hung up")
        buffer: Any = self._buffer
        self.reader.feed(buffer, 0, size)

    @property
    def has_news(self) -> bool:
        """Whether something has come in that was not read, or the other side has hung up."""
        return bool(self._news(0)) or self.reader.has_data()

    @property
    def is_readable(self) -> bool:
        """Whether something has come in that was not received, or the other side has hung up."""
        return bool(self._news(0))

    def limit_waits(self, seconds: float) -> None:
        """Let each wait from now on end after so long."""
        limit_waits(self.socket, seconds)

    def fileno(self) -> int:
        """Return the number by which an event loop can watch the connection."""
        return self.socket.fileno()

    def close(self) -> None:
        """Hang up; repeated, do nothing."""
        self._connection.disconnect()


def lost(error: OSError, opened: socket.socket) -> RedisConnectionError | RedisTimeoutError:
    """Return the error of a connection for one of the system. Raises an OSError that comes from elsewhere."""
    if not isinstance(error, ssl.SSLError) and not (opened.gettimeout() and str(error) in _TIMED_OUT):
        refuse_foreign(error)
    if isinstance(error, TimeoutError | BlockingIOError):
        return RedisTimeoutError("the server does not answer")
    return RedisConnectionError(str(error))


def limit_waits(opened: socket.socket, timeout: float) -> None:
    """Let each wait on a socket end after so long.

    Python asks the system before it sends or receives whether it may, where it has to see to the limit itself.
    """
    if sys.platform != "linux" or isinstance(opened, ssl.SSLSocket):
        opened.settimeout(timeout)
        return
    seconds, rest = divmod(max(round(timeout * 1_000_000), 1), 1_000_000)
    limit = struct.pack("@ll", seconds, rest)
    opened.settimeout(None)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _news_of(opened: socket.socket) -> Any:
    """Return what tells, given a 0, whether there is something to read."""
    if not hasattr(select, "poll"):  # on Windows
        return lambda seconds: select.select([opened], [], [], seconds)[0]
    news = select.poll()
    news.register(opened, select.POLLIN)
    return news.poll
