"""Connections to Redis: where the server is, and how one is opened and kept.

A connection as this store uses it: a command goes out, its reply comes in.

The library opens it: name, TLS, login, database. What it would do around every call after that takes longer than
the call: so from then on it only holds the socket, and the parser is fed here.
"""

import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any
from weakref import ref

import hiredis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, InvalidResponse, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from standfast.errors import StoreError, StoreUnavailableError
from standfast.stores.redis.url import Address, Endpoint, Kind, Login
from standfast.stores.refusals import refuse_foreign

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


# Opens connections: with a limit on every wait, and without the retries of the library, which would exceed it.

Opened = tuple[Wire, Endpoint, int]
"""A connection, where it leads, and how often the server had been lost before."""

_KINDS: dict[str, Any] = {"socket": UnixDomainSocketConnection, "plain": Connection, "tls": SSLConnection}


def open_connection(address: Address, place: Endpoint, timeout: float) -> Wire:
    """Return a connection to the server at this place, logged in and at the database of the address."""
    return _open(address, place, address.login, timeout, db=address.db)


def open_to_sentinel(address: Address, place: Endpoint, timeout: float) -> Wire:
    """Return a connection to one of the sentinels of the address."""
    return _open(address, place, address.sentinel_login, timeout, db=0)


def _open(address: Address, place: Endpoint, login: Login, timeout: float, *, db: int) -> Wire:
    options: dict[str, Any] = {
        "db": db,
        "username": login.username,
        "password": login.password,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if place.path:
        kind, options["path"] = "socket", place.path
    else:
        kind = "tls" if address.tls else "plain"
        options |= {"host": place.host, "port": place.port, "socket_keepalive": True, **address.tls_options}
    connection = _KINDS[kind](**options)
    # By default the library tells the server its name and version, in two more round trips, and takes whatever is
    # answered for a refusal of that: also that nobody is let in at all.
    connection.driver_info = connection.lib_name = connection.lib_version = None
    handled = sys.exception()
    try:
        connection.connect()
    except RedisError as error:
        _refuse_foreign_behind(error, handled)
        raise
    return Wire(connection, timeout)


def _refuse_foreign_behind(error: RedisError, handled: BaseException | None) -> None:
    """Raise the TimeoutError of a signal handler that the library took for one of its socket.

    `handled` is the exception that was being handled before: it and those behind it are left out.
    """
    behind = error.__context__
    while behind is not None and behind is not handled:
        if isinstance(behind, TimeoutError) and not str(behind).endswith("timed out"):
            refuse_foreign(behind)
        behind = behind.__context__


def hang_up(opened: Opened) -> None:
    """Close what was opened for somebody who has left."""
    opened[0].close()


# Where the server is that holds a namespace, and how to find it again after a failover.
#
# All keys of a namespace have one hash tag, so that a cluster keeps them in one slot on one master: it is enough to
# know that one. A slot that is being moved to another node is not followed half-way (ASK): a script sees the keys of
# one node only, and would take those that are still on the other for missing. Even when all keys have moved, the new
# node refuses each command with several keys of which one is new, in the middle of a script, until the slot is its
# own. So calls wait for the end of the move (engine.py).

_PATIENCE = 2.0
"""Seconds that one node has to answer before the next is asked."""


class Locator:
    """Knows where the server is: at one place for good, where nobody reports another.

    What a host name means may change, and is looked up for each connection.
    """

    may_move = False
    """Whether the server may be at another place the next time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.found: Endpoint | None = address.places[0]
        """Where the server is, if that is known."""

    def find(self) -> Endpoint:
        """Return where the server is; ask for it if that is not known."""
        return self._address.places[0]

    def lose(self, place: Endpoint) -> None:
        """Take note that the server is no longer at this place."""


class Reported(Locator):
    """A server whose place some nodes report. They are asked in turn until one knows."""

    may_move = True

    def __init__(self, address: Address, timeout: float, slot: int) -> None:
        super().__init__(address)
        self.found = None
        self._timeout = timeout
        self._slot = slot
        self._asked = address.places

    def find(self) -> Endpoint:
        """Return where the server is; ask for it if that is not known."""
        found = self.found
        if found is None:
            found = self.found = self._ask_around()
        return found

    def lose(self, place: Endpoint) -> None:
        """Take note that the server is no longer at this place."""
        if self.found == place:
            self.found = None

    def _ask_around(self) -> Endpoint:
        last_error: Exception | None = None
        give_up_at = time.monotonic() + self._timeout
        for node in self._asked:
            patience = min(_PATIENCE, give_up_at - time.monotonic())
            if patience <= 0:
                break
            try:
                found = self._ask(node, patience)
            except (RedisError, OSError) as error:
                if isinstance(error, OSError):
                    refuse_foreign(error)
                last_error = error
                continue
            if found is not None:
                return found
        if last_error is not None:
            raise last_error
        raise self._unknown()

    def _ask(self, node: Endpoint, patience: float) -> Endpoint | None:
        raise NotImplementedError

    def _unknown(self) -> StoreError:
        raise NotImplementedError


class OfCluster(Reported):
    """The master of one slot of a cluster."""

    def _ask(self, node: Endpoint, patience: float) -> Endpoint | None:
        ranges = _reply(open_connection, self._address, node, patience, "CLUSTER", "SLOTS")
        masters = [(first, last, _place(master, node)) for first, last, master, *_ in ranges]
        # Any node may be gone by the next time: the ones that the URL names as well.
        self._asked = tuple(dict.fromkeys([*(place for _, _, place in masters), *self._address.places]))
        return next((place for first, last, place in masters if first <= self._slot <= last), None)

    def _unknown(self) -> StoreError:
        return StoreUnavailableError(
            f"Redis {self._address.name} has no master for the slot of these jobs: see `redis-cli --cluster check`,"
            " or try again after the failover"
        )


class OfSentinel(Reported):
    """The master of a service that sentinels watch."""

    def _ask(self, node: Endpoint, patience: float) -> Endpoint | None:
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
        told = _reply(open_to_sentinel, self._address, node, patience, *command)
        return None if told is None else _place(told, node)

    def _unknown(self) -> StoreError:
        return StoreError(
            f"Redis {self._address.name} is not known there: write the name of the service as in `sentinel monitor`"
        )


def locator_of(address: Address, prefix: str, timeout: float) -> Locator:
    """Return who knows where the server of this address is, for the keys with this prefix."""
    if address.kind is Kind.CLUSTER:
        return OfCluster(address, timeout, key_slot(prefix.encode()))
    if address.kind is Kind.SENTINEL:
        return OfSentinel(address, timeout, 0)
    return Locator(address)


def _reply(
    open_to: Callable[[Address, Endpoint, float], Wire],
    address: Address,
    node: Endpoint,
    patience: float,
    *command: str,
) -> Any:
    with closing(open_to(address, node, patience)) as connection:
        return connection.ask(*command)


def _place(told: Iterable[Any], asked: Endpoint) -> Endpoint:
    """Return the place that a node tells. One that does not know its own host is where it was asked."""
    host, port, *_ = told
    name = host.decode() if host else ""
    return Endpoint(asked.host if name in {"", "?"} else name, int(port))


# The connections of threads for one kind of call: a bounded number, used again, each looked at before it is used.
#
# A signal handler may raise between any two steps of a call, and then nobody gives back what was lent. So it is not
# counted how many are lent: there is a seat for each, which is free, or in someone's hands, or gone (with the error
# that knows the frames it came through), and one that is gone is replaced.

_LEAST = 0.001
"""Seconds: a system takes 0 for no limit."""


class Seat:
    """The right to one connection. It lives as long as someone has it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class Line:
    """A connection, where it leads, and the seat of whoever has it in hands."""

    place: Endpoint
    wire: Wire
    seat: Seat | None = None
    is_hurried: bool = False
    """Whether its waits are limited to the time left for the call that it was opened for."""


class Pool:
    """At most `size` connections."""

    def __init__(self, address: Address, size: int, timeout: float) -> None:
        self._address = address
        self._size = size
        self._timeout = timeout
        self._idle: deque[Line] = deque()
        self._free: SimpleQueue[Seat] = SimpleQueue()  # faster than a semaphore
        self._seats: list[ref[Seat]] = []
        self._replacing = threading.RLock()
        self._is_closed = False
        self._replace_lost_seats()

    def take(self, place: Endpoint, give_up_at: float | None = None, *, fresh: bool = False) -> Line:
        """Return a connection to this place that nobody else uses, to be given back or dropped.

        `give_up_at` is a time of the monotonic clock. It limits the opening of a connection, and each wait on one
        that is opened here. A `fresh` one is always opened. Raises ClosedError once the pool is closed.
        """
        try:
            seat = self._free.get(block=False)
        except Empty:
            seat = self._wait_for_seat(self._left(give_up_at))
        try:
            line = None if fresh else self._usable_idle(place)
            if line is None:
                line = self._open(place, self._left(give_up_at))
        except BaseException:
            self._free.put(seat)
            raise
        line.seat = seat
        return line

    def give_back(self, line: Line) -> None:
        """Let others use the connection: all that was asked on it is answered."""
        seat, line.seat = line.seat, None
        if line.is_hurried:
            line.wire.limit_waits(self._timeout)
            line.is_hurried = False
        self._idle.append(line)
        if seat is not None:
            self._free.put(seat)
        if self._is_closed:
            self.clear()

    def drop(self, line: Line) -> None:
        """Let nobody use the connection again."""
        seat, line.seat = line.seat, None
        line.wire.close()
        if seat is not None:
            self._free.put(seat)

    def clear(self) -> None:
        """Hang up where nobody uses a connection now."""
        with suppress(IndexError):
            while True:
                self._idle.pop().wire.close()

    def close(self) -> None:
        """Open no more connections, and hang up each as soon as nobody uses it."""
        self._is_closed = True
        self.clear()

    def _left(self, give_up_at: float | None) -> float:
        """Return the seconds until then, and always enough for a try."""
        return self._timeout if give_up_at is None else max(give_up_at - time.monotonic(), _LEAST)

    def _wait_for_seat(self, seconds: float) -> Seat:
        self._replace_lost_seats()
        try:
            return self._free.get(timeout=seconds)
        except Empty:
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to Redis {self._address.name} were in use for over"
                f" {self._timeout:g} s: call from fewer threads at once, or try again"
            ) from None

    def _replace_lost_seats(self) -> None:
        with self._replacing:
            self._seats = [known for known in self._seats if known() is not None]
            while len(self._seats) < self._size:
                seat = Seat()
                self._seats.append(ref(seat))
                self._free.put(seat)

    def _usable_idle(self, place: Endpoint) -> Line | None:
        while True:
            try:
                idle = self._idle.pop()
            except IndexError:
                return None
            is_there = idle.place is place or idle.place == place
            if is_there and not idle.wire.has_news:  # such as that the server has hung up
                return idle
            idle.wire.close()

    def _open(self, place: Endpoint, seconds: float) -> Line:
        if self._is_closed:
            raise ClosedError("the store was closed")
        opened_by = time.monotonic() + seconds
        line = Line(place, open_connection(self._address, place, seconds), is_hurried=True)
        line.wire.limit_waits(self._left(opened_by))
        return line
