"""One ping: a GET of a URL, and whether it was answered well within its time.

The token goes into a header, and to no other host than the one named: a redirect elsewhere is not followed. What is
told of a URL never has its query in it.
"""

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import SplitResult, urljoin

from standfast.errors import ConfigurationError
from standfast.exchange import FAILURES, exchange, why_not
from standfast.weburl import http_url, port_of

MOST_REDIRECTS = 5
_EXAMPLE = "https://shop.example/livez"
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
        return cls(http_url(text, "a URL to ping", "give a token with --token-file instead", _EXAMPLE))

    @property
    def name(self) -> str:
        """What to call it in front of people."""
        return f"{self.url.scheme}://{self.url.netloc}{self.url.path}"

    @property
    def port(self) -> int:
        """Its port."""
        return port_of(self.url)

    def leads_on(self, to: "Target") -> bool:
        """Tell whether a redirect may be followed: on the same host, and never from https to http."""
        same = self.url.hostname == to.url.hostname
        plain = (self.url.scheme, self.port) == (to.url.scheme, to.port)
        secured = (self.url.scheme, self.port, to.url.scheme, to.port) == ("http", 80, "https", 443)
        return same and (plain or secured)


def ping(target: Target, timeout: float, token: str | None = None) -> Pinged:
    """Get a URL. All of it, redirects too, has `timeout` seconds."""
    began_at = time.monotonic()
    headers = {"User-Agent": "standfast-keepalive", "Accept": "*/*"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    ok, says = False, f"more than {MOST_REDIRECTS} redirects"
    for _ in range(MOST_REDIRECTS + 1):
        left = began_at + timeout - time.monotonic()
        try:
            answer = exchange(target.url, left, headers=headers)
        except FAILURES as error:
            is_late = time.monotonic() - began_at >= timeout
            says = f"no answer within {timeout:g} s" if is_late else why_not(error)
            break
        if answer.status not in _REDIRECTS or answer.location is None:
            ok, says = answer.status < HTTPStatus.BAD_REQUEST, answer.says
            break
        try:
            there = Target.of(urljoin(target.url.geturl(), answer.location))
        except (ConfigurationError, ValueError):
            says = f"{answer.status}, a redirect that cannot be followed"
            break
        if not target.leads_on(there):
            says = f"{answer.status}, a redirect to another host: give the URL that it leads to"
            break
        target = there
    return Pinged(ok, says, time.monotonic() - began_at)
