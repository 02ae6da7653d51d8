"""One ping: a GET of a URL, and whether it was answered well within its time.

The token goes into a header, and to no other host than the one named: a redirect elsewhere is not followed. What is
told of a URL never has its query in it.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import SplitResult, urljoin, urlsplit

from holdfast.errors import ConfigurationError
from holdfast.words import one_line

MOST_REDIRECTS = 5
_LONGEST_ANSWER = 65_536
"""Bytes that are read of an answer; nobody looks at them."""
_LONGEST_REASON = 200
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Pinged:
    """What became of a ping: the status of the answer, or what went wrong; and how many seconds it took."""

    ok: bool
    says: str
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What is pinged."""

    url: SplitResult

    @classmethod
    def of(cls, text: str) -> Self:
        """Return what a URL means. Raises ConfigurationError, which does not repeat a password."""
        try:
            url = urlsplit(text)
            host, _ = url.hostname, url.port
        except ValueError as error:
            raise ConfigurationError(f"a URL cannot be read: {error}") from error
        if url.scheme not in _PORTS or not host or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigurationError("a URL to ping looks like https://shop.example/livez, all of it in ASCII")
        if url.username is not None or url.password is not None:
            raise ConfigurationError(
                "a URL to ping has no user and no password in it: give a token with --token-file instead"
            )
        return cls(url)

    @property
    def name(self) -> str:
        """What to call it in front of people."""
        return f"{self.url.scheme}://{self.url.netloc}{self.url.path}"

    @property
    def port(self) -> int:
        """Its port."""
        return self.url.port or _PORTS[self.url.scheme]

    def leads_on(self, to: "Target") -> bool:
        """Tell whether a redirect may be followed: on the same host, and never from https to http."""
        same = self.url.hostname == to.url.hostname
        plain = (self.url.scheme, self.port) == (to.url.scheme, to.port)
        secured = (self.url.scheme, self.port, to.url.scheme, to.port) == ("http", 80, "https", 443)
        return same and (plain or secured)


def ping(target: Target, timeout: float, token: str | None = None) -> Pinged:
    """Get a URL. All of it, redirects too, has `timeout` seconds."""
    began_at = time.monotonic()
    headers = {"User-Agent": "holdfast-keepalive", "Accept": "*/*", "Connection": "close"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    ok, says = False, f"more than {MOST_REDIRECTS} redirects"
    for _ in range(MOST_REDIRECTS + 1):
        left = began_at + timeout - time.monotonic()
        try:
            status, leads_to = _get(target, headers, left)
        except (OSError, http.client.HTTPException, ValueError) as error:
            is_late = time.monotonic() - began_at >= timeout
            says = f"no answer within {timeout:g} s" if is_late else _reason(error)
            break
        if status not in _REDIRECTS or leads_to is None:
            ok, says = status < HTTPStatus.BAD_REQUEST, f"{status} {_phrase(status)}".strip()
            break
        try:
            there = Target.of(urljoin(target.url.geturl(), leads_to))
        except (ConfigurationError, ValueError):
            says = f"{status}, a redirect that cannot be followed"
            break
        if not target.leads_on(there):
            says = f"{status}, a redirect to another host: give the URL that it leads to"
            break
        target = there
    return Pinged(ok, says, time.monotonic() - began_at)


def _get(target: Target, headers: dict[str, str], seconds: float) -> tuple[int, str | None]:
    """Return the status of the answer, and where it leads to."""
    if seconds <= 0:
        raise TimeoutError
    host, path = target.url.hostname or "", target.url.path or "/"
    if target.url.query:
        path += f"?{target.url.query}"
    with (
        socket.create_connection((host, target.port), seconds) as plain,
        _cut_after(seconds, plain) as is_cut,
        closing(http.client.HTTPConnection(host, target.port)) as connection,
    ):
        connection.default_port = _PORTS[target.url.scheme]
        secured = target.url.scheme == "https"
        connection.sock = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secured else plain
        )
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            answer.read(_LONGEST_ANSWER)
        if is_cut():
            raise TimeoutError  # what was cut off looks like an end
        return answer.status, answer.getheader("Location")


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


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""


def _reason(error: Exception) -> str:
    """Return what went wrong in words without anything that was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return one_line(f"its certificate is refused: {error.verify_message}", _LONGEST_REASON)
    if isinstance(error, (socket.gaierror, UnicodeError)):  # the latter for what can be no host name
        return "its host name is not known"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror[:1].lower() + error.strerror[1:], _LONGEST_REASON)
    return f"no answer in HTTP ({type(error).__name__})"
