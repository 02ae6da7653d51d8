"""The dashboard on a port of its own, with a limit to its connections: each has one of so many places.

    connects ─► from where? ─► a place, of all and of this address ─► silent ─► busy ─► silent ─► … ─► closed

Where no place is free, one who is silent makes way, else the one who has taken nothing of an answer for longest:
with connections alone nobody keeps others out, nor uses up the descriptors that the store needs.
"""

import asyncio
import logging
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from standfast.dashboard.access.caller import is_within
from standfast.dashboard.serving.sidecar import end_with_starter
from standfast.dashboard.serving.wsgi_bridge import Asgi
from standfast.errors import ConfigurationError
from standfast.observe.health.access import key_of, read_networks, read_peer
from standfast.observe.health.http_server import addresses_of

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Connections that are taken before those that have a place are looked at again."""

UNTAKEN = 20.0
"""Seconds for which somebody may take nothing of what is sent to them."""

_BACKLOG = 128
_MOST, _FEWEST = 512, 32
_ABORTED = struct.pack("ii", 1, 0)  # what was not sent yet is thrown away


def places() -> int:
    """Return how many may be connected at a time: half of the descriptors that this process may have, at most."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if descriptors < 0 else max(_FEWEST, min(_MOST, descriptors // 2))


class ConnectionLimit(socket.socket):
    """A socket that listens, in place of another one. Belongs to one event loop.

    `networks` may connect, None for any; so may `proxies`, each for as many as there are places. Of another address
    there may be `of_one`, by default a quarter of them.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        networks: Sequence[str] | None = None,
        proxies: Sequence[str] = (),
        most: int | None = None,
        of_one: int | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fileno=listening.detach())
        self._proxies = read_networks(proxies)
        self._networks = None if networks is None else (*read_networks(networks), *self._proxies)
        self._most = places() if most is None else most
        self._of_one = max(1, self._most // 4) if of_one is None else of_one
        self.ticks = ticks
        self._connections: dict[int, _Connection] = {}
        self._counts: Counter[Hashable] = Counter()

    def listen(self, _backlog: int = _BACKLOG, /) -> None:
        """Let so many wait, however many are taken at once."""
        super().listen(_BACKLOG)

    def accept(self) -> "tuple[_Connection, Any]":
        """Return the next who has a place. Raises BlockingIOError where none is there, or many had none."""
        for _ in range(AT_ONCE):
            wire, peer = super().accept()
            connection = self._admit(wire, peer)
            if connection is not None:
                return connection, peer
            _abort(wire)
            wire.close()
        raise BlockingIOError

    def note(self, number: int, *, is_silent: bool) -> None:
        """Say of a connection, by its descriptor, whether it owes us a request, or we owe it an answer."""
        if number in self._connections:
            self._connections[number].is_silent = is_silent

    def sweep(self) -> None:
        """Close those who do not take what is sent to them."""
        now = self.ticks()
        for connection in [each for each in self._connections.values() if each.untaken(now) > UNTAKEN]:
            log.warning("connections were closed that took nothing of their answers")
            self._drop(connection)

    def leave(self, connection: "_Connection") -> None:
        """Free the place of somebody."""
        if self._connections.get(connection.number) is connection:
            del self._connections[connection.number]
            self._counts[connection.whose] -= 1
            self._counts += Counter()  # who has no place is forgotten

    def __len__(self) -> int:
        """Return how many have a place."""
        return len(self._connections)

    def _admit(self, wire: socket.socket, peer: Any) -> "_Connection | None":
        address = read_peer(peer[0])
        if self._networks is not None and not is_within(address, self._networks):
            log.warning("connections were closed at once: they came from where nobody may come from")
            return None
        whose = key_of(address)
        is_proxy = is_within(address, self._proxies)
        if not is_proxy and self._counts[whose] >= self._of_one:
            may_stay = self._make_room(each for each in self._connections.values() if each.whose == whose)
        else:
            may_stay = len(self._connections) < self._most or self._make_room(self._connections.values())
        if not may_stay:
            log.warning("connections were closed at once: too many at a time, from one address or in all")
            return None
        connection = _Connection(wire, self, whose)
        self._connections[connection.number] = connection
        self._counts[whose] += 1
        return connection

    def _make_room(self, connections: "Iterable[_Connection]") -> bool:
        """Close one who is silent, or takes nothing; tell whether there was any."""
        now = self.ticks()
        found = list(connections)
        silent = next((each for each in found if each.is_silent), None)
        slowest = max(found, key=lambda each: each.untaken(now))
        if silent is None and not slowest.untaken(now):
            return False
        log.warning("connections were closed to make room for others: too many at a time")
        self._drop(silent or slowest)
        return True

    def _drop(self, connection: "_Connection") -> None:
        self.leave(connection)
        _abort(connection)


class _Connection(socket.socket):
    """A connection that has a place, until it is closed, and knows since when nothing of it was taken."""

    def __init__(self, wire: socket.socket, limit: ConnectionLimit, whose: Hashable) -> None:
        super().__init__(fileno=wire.detach())
        self._limit = limit
        self.whose = whose
        self.number = self.fileno()
        self.is_silent = True
        self._stuck_at: float | None = None

    def untaken(self, now: float) -> float:
        """Return for how many seconds nothing was taken of what waits to be sent."""
        return 0.0 if self._stuck_at is None else now - self._stuck_at

    def send(self, data: Any, *flags: int) -> int:
        return self._watched(lambda: super(_Connection, self).send(data, *flags), (data,))

    def sendmsg(self, buffers: Iterable[Any], *more: Any) -> int:
        parts = list(buffers)
        return self._watched(lambda: super(_Connection, self).sendmsg(parts, *more), parts)

    def close(self) -> None:
        self._limit.leave(self)
        super().close()

    def _watched(self, send: Callable[[], int], parts: Iterable[Any]) -> int:
        try:
            sent = send()
        except BlockingIOError:
            if self._stuck_at is None:
                self._stuck_at = self._limit.ticks()
            raise
        is_all = sent == sum(memoryview(part).nbytes for part in parts)
        self._stuck_at = None if is_all else self._limit.ticks()
        return sent


def _abort(wire: socket.socket) -> None:
    """End a connection, which whoever waits for it learns; it is for its owner to close."""
    with suppress(OSError):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTED)
        wire.shutdown(socket.SHUT_RDWR)


PATIENCE = 10.0
"""Seconds for the head of a request to be there whole."""

MOST_AHEAD = 8
"""Requests in a row that may be there before the one before them is answered. Browsers send none so."""


class TimedProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to its patience. Bodies have theirs where they are read.

    The limit knows who is silent, and closes connections whose answers are not taken.
    """

    def __init__(self, *given: Any, limit: ConnectionLimit | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limit = limit
        self._number = -1
        self._ahead = 0
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._number = transport.get_extra_info("socket").fileno()
        self._mind()

    def data_received(self, data: bytes) -> None:
        """Take what came; where it is not yet a request, go on waiting, but not for longer."""
        super().data_received(data)
        self._mind()

    def on_response_complete(self) -> None:
        """Go on with the next request; who sends many ahead is not waited for."""
        self._ahead = self._ahead + 1 if self.conn.trailing_data[0] else 0
        if self._ahead > MOST_AHEAD:
            self.transport.close()
        super().on_response_complete()
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._forget()

    def _mind(self) -> None:
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing():
            return
        if self._limit is not None:
            self._limit.note(self._number, is_silent=not is_busy or self.cycle.more_body)
        if is_busy:
            self._forget()
        elif self._end is None:
            self._end = self.loop.call_later(PATIENCE, self.transport.close)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


PAUSE = 60.0
"""Seconds for which the same warning is not written again."""


class LogThrottle(logging.Filter):
    """Lets each warning through once in a while, with how often it was left out; errors always."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._ticks = ticks
        self._told: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to write it. Messages are told apart before their arguments are in them: there are few."""
        if record.levelno > logging.WARNING:
            return True
        told_at, left_out = self._told.get(record.msg, (float("-inf"), 0))
        now = self._ticks()
        if now - told_at < PAUSE:
            self._told[record.msg] = told_at, left_out + 1
            return False
        self._told[record.msg] = now, 0
        if left_out:
            record.msg = f"{record.msg} (and {left_out} times more since this was said last)"
        return True


PORT = 8080
"""Where it is, unless something else is."""

LEAVE = 2
"""Seconds for open requests when it ends; live updates never end by themselves."""

_LONGEST_HEAD = 32 * 1024
_TICKS = 10
"""Ticks of the server in a second, which is how often stuck connections are closed."""


def open_port(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens there: without a port, on 8080, or any that is free."""
    (family, address), *_ = addresses_of(host, port or PORT)
    wanted = (PORT, 0) if port is None else (port,)
    for number in wanted:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address, number))
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            if number == wanted[-1]:
                raise ConfigurationError(
                    f"cannot listen on {host} port {number}: {error.strerror}; name another --port"
                ) from error
        else:
            return listening
    raise AssertionError(wanted)


def url_of(listening: socket.socket) -> str:
    """Return where a browser on this machine finds what listens there."""
    address, port, *_ = listening.getsockname()
    if address in {"0.0.0.0", "::"}:  # noqa: S104 - it is compared
        address = "127.0.0.1"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def serve(app: Asgi, limit: ConnectionLimit, began: Callable[[], None]) -> None:
    """Serve until a signal says to stop, or whoever started us is gone."""
    config = uvicorn.Config(
        app,
        loop="asyncio",  # others do not ask the socket for connections
        http=cast("type[asyncio.Protocol]", partial(TimedProtocol, limit=limit)),
        ws="none",  # nor would those who speak that be minded
        backlog=AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_graceful_shutdown=LEAVE,
    )
    for each in (logging.getLogger("uvicorn.error"), log):
        each.addFilter(LogThrottle())
    server = _Server(config, limit, began)

    def leave() -> None:
        server.should_exit = True

    end_with_starter(leave)
    server.run(sockets=[limit])


class _Server(uvicorn.Server):
    """Tells when it can be reached, and closes stuck connections."""

    def __init__(self, config: uvicorn.Config, limit: ConnectionLimit, began: Callable[[], None]) -> None:
        super().__init__(config)
        self._limit = limit
        self._began = began

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self._began()

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done now and then; tell whether to stop."""
        if counter % _TICKS == 0:
            self._limit.sweep()
        return await super().on_tick(counter)
