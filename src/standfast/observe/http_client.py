"""One exchange over HTTP with a server that may be slow, lie or never answer: bounded in time and in size.

Nothing is followed, certificates are verified, and what is told of a failure has nothing in it that was sent.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult

from standfast.model.display import one_line
from standfast.model.validation import PORTS, port_of

_LONGEST_ANSWER = 65_536  # bytes that are read of an answer; nobody looks at them
_LONGEST_REASON = 200

_Addresses = Iterable[tuple[int, int, int, str, Any]]  # as `socket.getaddrinfo` returns them
Resolve = Callable[..., _Addresses]


class NoAnswerError(Exception):
    """There is no answer. It says why, without anything that was sent."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back: the status, and where it leads to."""

    status: int
    location: str | None

    @property
    def says(self) -> str:
        """The status in words."""
        known = self.status in {each.value for each in HTTPStatus}
        return f"{self.status} {HTTPStatus(self.status).phrase}" if known else str(self.status)


def send_request(
    url: SplitResult,
    seconds: float,
    *,
    headers: Mapping[str, str],
    method: str = "GET",
    body: bytes | None = None,
    resolve: Resolve = socket.getaddrinfo,
    began_at: float | None = None,
) -> HttpAnswer:
    """Ask, and return the answer, all within so many seconds of the monotonic clock. Raises NoAnswerError."""
    ends_at = (time.monotonic() if began_at is None else began_at) + seconds
    host, path = url.hostname or "", url.path or "/"
    if url.query:
        path += f"?{url.query}"
    try:
        addresses = _resolved(resolve, host, port_of(url), ends_at - time.monotonic())
        with (
            _connect(addresses, ends_at) as plain,
            _cut_after(ends_at - time.monotonic(), plain) as is_cut,
            closing(http.client.HTTPConnection(host, port_of(url))) as connection,
        ):
            connection.default_port = PORTS[url.scheme]
            secured = url.scheme == "https"
            connection.sock = (
                ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secured else plain
            )
            connection.request(method, path, body, {**headers, "Connection": "close"})
            with connection.getresponse() as answer:
                answer.read(_LONGEST_ANSWER)
            if is_cut():
                raise TimeoutError  # what was cut off looks like an end
            return HttpAnswer(answer.status, answer.getheader("Location"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        is_late = time.monotonic() >= ends_at
        raise NoAnswerError(f"no answer within {seconds:g} s" if is_late else _reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return one_line(f"its certificate is refused: {error.verify_message}", _LONGEST_REASON)
    if isinstance(error, (socket.gaierror, UnicodeError)):  # the latter for what can be no host name
        return "its host name is not known"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror[:1].lower() + error.strerror[1:], _LONGEST_REASON)
    return f"no answer in HTTP ({type(error).__name__})"


def _resolved(resolve: Resolve, host: str, port: int, seconds: float) -> _Addresses:
    """Return where a host is. Nothing ends a resolver that hangs: it does so in a thread that is left behind."""
    found: Future[_Addresses] = Future()

    def look_up() -> None:
        try:
            found.set_result(resolve(host, port, type=socket.SOCK_STREAM))
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            found.set_exception(error)

    threading.Thread(target=look_up, name="standfast-resolving", daemon=True).start()
    return found.result(seconds)


def _connect(addresses: _Addresses, ends_at: float) -> socket.socket:
    """Connect to the first address that answers: all of them together have the time that is left."""
    last: OSError = TimeoutError()
    for family, kind, protocol, _, address in addresses:
        left = ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(left)
            connection.connect(address)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    raise last


@contextmanager
def _cut_after(seconds: float, connection: socket.socket) -> Iterator[Callable[[], bool]]:
    """End a connection under the hands of whoever reads: the timeout of a socket begins anew with each byte."""
    cut = threading.Event()
    same = connection.dup()  # TLS takes over the one that it is given

    def end() -> None:
        cut.set()
        with suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)

    watch = threading.Timer(seconds, end)
    watch.daemon = True
    watch.start()
    try:
        yield cut.is_set
    finally:
        watch.cancel()
        same.close()
