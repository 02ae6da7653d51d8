"""A small HTTP server for health and metrics: one request per connection, all of it short, and nobody holds it up.

A connection is given so many seconds in all, however slowly it sends, and there are only so many at a time: for one
that comes beyond it another ends, the oldest of the peer that has most. Who holds on to many ends their own.
"""

import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Protocol

from standfast.errors import ConfigurationError
from standfast.observe.health.access import key_of, read_peer
from standfast.observe.health.endpoints import Answer, Request

LONGEST_CONNECTION = 10.0  # seconds that a connection may take
MOST_CONNECTIONS = 64

_LONGEST_HEAD = 16_384  # bytes of a request line with its headers
_LONGEST_LEFT = 65_536
"""Bytes of a body that are read, and forgotten: closed with bytes unread, a connection may lose the answer."""
_LINGER = 1.0


def addresses_of(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses that a host name means, each with its family. Raises ConfigurationError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{host!r} is no address to listen on: {error}") from error
    return [(family, str(address[0])) for family, _, _, _, address in found]


def is_of_this_machine(host: str, port: int) -> bool:
    """Tell whether only this machine itself reaches what listens there."""
    return all(ip_address(address.partition("%")[0]).is_loopback for _, address in addresses_of(host, port))


@dataclass(frozen=True, slots=True)
class _Connection:
    whose: Hashable
    began_at: float


def _cut(connection: socket.socket) -> None:
    """End a connection under the hands of its handler, which then lets go of it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Answering(Protocol):
    """Who answers requests: `Health`, for one."""

    def answer(self, request: Request, malformed: HTTPStatus | None = None) -> Answer:
        """Return the answer to a request, which may be none that is well formed."""
        ...


class HealthServer(socketserver.ThreadingTCPServer):
    """Serves health on a port of its own."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, health: Answering, host: str, port: int) -> None:
        self.health = health
        self._guarded = threading.Lock()
        self._open: dict[socket.socket, _Connection] = {}
        (self.address_family, address), *_ = addresses_of(host, port)
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror}") from error

    @property
    def url(self) -> str:
        """Where it is."""
        host, port, *_ = self.server_address
        shown = f"[{host!s}]" if self.address_family is socket.AF_INET6 else str(host)
        return f"http://{shown}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection, and end another if there are too many."""
        with self._guarded:
            self._open[request] = _Connection(key_of(read_peer(str(client_address[0]))), time.monotonic())
            ending = self._one_too_many()
        if ending is not None:
            _cut(ending)
        super().process_request(request, client_address)

    def _one_too_many(self) -> socket.socket | None:
        """Take out the one to end: of the peers that have most of them, the oldest."""
        if len(self._open) <= MOST_CONNECTIONS:
            return None
        counts = Counter(each.whose for each in self._open.values())
        most = max(counts.values())
        ending = next(connection for connection, each in self._open.items() if counts[each.whose] == most)
        del self._open[ending]
        return ending

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._guarded:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections that have taken too long; called now and again."""
        with self._guarded:
            now = time.monotonic()
            late = [one for one, each in self._open.items() if now - each.began_at > LONGEST_CONNECTION]
        for connection in late:
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke: whoever asked has gone."""


class _Handler(socketserver.StreamRequestHandler):
    """One connection."""

    server: HealthServer
    timeout = LONGEST_CONNECTION

    def handle(self) -> None:
        """Read a request, answer it, and wait a moment for the other side to read that."""
        self._write(self._answered())
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER)
        left = _LONGEST_LEFT
        while left > 0 and (read := self.connection.recv(left)):
            left -= len(read)

    def _answered(self) -> Answer:
        peer = str(self.client_address[0])
        line, headers = self._head()
        words = line.split(" ")
        credentials, hosts = (
            [value.strip() for name, value in headers if name.lower() == wanted]
            for wanted in (b"authorization", b"host")
        )
        if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - method, target, version
            request = Request("GET", "", peer, credentials, hosts)
            return self.server.health.answer(request, malformed=HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        return self.server.health.answer(Request(method, target.partition("?")[0], peer, credentials, hosts))

    def _head(self) -> tuple[str, list[tuple[bytes, bytes]]]:
        """Return the request line, empty where it or what follows is too long or no HTTP, and the headers."""
        left = _LONGEST_HEAD
        lines: list[bytes] = []
        while left > 0 and (line := self.rfile.readline(left)):
            left -= len(line)
            lines.append(line.rstrip(b"\r\n"))
            if not lines[-1]:
                break
        first, *others, last = lines if len(lines) > 1 else [b"", b"no end"]
        pairs = [line.partition(b":") for line in others]
        is_whole = not last and all(colon for _, colon, _ in pairs)
        return first.decode("latin-1") if is_whole else "", [(name, value) for name, _, value in pairs]

    def _write(self, answer: Answer) -> None:
        headers = "".join(f"{name}: {value}\r\n" for name, value in (*answer.headers, ("Connection", "close")))
        head = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n{headers}\r\n"
        self.wfile.write(head.encode("latin-1") + answer.body)
