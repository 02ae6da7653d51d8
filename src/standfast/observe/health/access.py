"""Who may ask about health, and how often.

A peer is known by the address of its connection: what it, or a proxy, says in a header about where it comes from is
not even read. Who is in one of the networks may ask; anybody else needs the token, where there is one. So does who
comes from this machine by a name that is none of its own: it may be a page in a browser, whose name server says that
it lives here. Those who may ask and those who may not have their buckets apart: behind a proxy both come from one
address, and a stranger who floods it must not keep out the one who has the token.
"""

import hmac
import math
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from standfast.errors import ConfigurationError

MOST_REMEMBERED = 4096
"""Of more, those who asked longest ago are forgotten: their buckets are most likely full again."""

LONGEST_DEBT = 60.0  # seconds after which any bucket owes nothing any more


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class RateLimiter:
    """Buckets that fill at `rate` tokens a second, up to `burst`. Any thread may take from them."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, whose: Hashable, cost: float = 1, *, in_any_case: bool = False) -> float:
        """Take tokens; return 0, or in how many seconds there are enough: `in_any_case` the bucket owes them."""
        with self._lock:
            now = self._clock()
            bucket = self._buckets.setdefault(whose, _Bucket(self._burst, now))
            self._buckets.move_to_end(whose)
            if len(self._buckets) > MOST_REMEMBERED:
                self._buckets.popitem(last=False)
            bucket.level = min(self._burst, bucket.level + (now - bucket.at) * self._rate)
            bucket.at = now
            short = max(0.0, cost - bucket.level)
            if not short or in_any_case:
                bucket.level = max(bucket.level - cost, -LONGEST_DEBT * self._rate)
            return short / self._rate

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._buckets)


LOOPBACK = ("127.0.0.0/8", "::1/128")  # the networks of this machine itself
RATE = 10.0  # requests a second that each peer may make, unless told otherwise
SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[!-~]+")
_BURST = 2.0  # seconds of asking that may come at once
_SMALLEST_BURST = 5.0
_WRONG_TOKEN = 5.0
"""What a wrong token costs, in requests; also one that comes too soon: who goes on guessing waits longer."""
_SITE = 64  # bits of an IPv6 address that tell one site from another: within it, one may have any address
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not answered."""

    status: HTTPStatus
    says: str
    headers: tuple[tuple[str, str], ...] = ()


_FOREIGN = Refusal(HTTPStatus.FORBIDDEN, "not for this address")
_MISLED = Refusal(HTTPStatus.MISDIRECTED_REQUEST, "this is not reached by that name")
_NO_TOKEN = Refusal(
    HTTPStatus.UNAUTHORIZED, "a token is needed", (("WWW-Authenticate", 'Bearer realm="standfast"'),)
)
_BAD_TOKEN = Refusal(
    HTTPStatus.UNAUTHORIZED,
    "this is not the token",
    (("WWW-Authenticate", 'Bearer realm="standfast", error="invalid_token"'),),
)


def check_token(token: str) -> str:
    """Return a token that can be sent and not be guessed. Raises ConfigurationError, which does not repeat it."""
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError("the token must be of letters, digits and signs of ASCII, without spaces")
    if len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(
            f"the token has {len(token)} characters, and must have {SHORTEST_TOKEN} or more; make one with"
            " `openssl rand -hex 32`"
        )
    return token


def read_networks(networks: Sequence[str]) -> tuple[Network, ...]:
    """Return networks in the form 10.0.0.0/8, or single addresses. Raises ConfigurationError."""
    if isinstance(networks, str):
        raise ConfigurationError(f"networks takes several: write networks=[{networks!r}]")
    read = []
    for text in networks:
        try:
            read.append(ip_network(text))
        except ValueError as error:
            raise ConfigurationError(f"{text!r} is no network ({error}); write e.g. 10.0.0.0/8 or ::1") from error
    return tuple(read)


def read_peer(peer: str | None) -> Address | None:
    """Return the address of a peer, of an IPv4 one that came by IPv6 its own; None where there is none to read."""
    try:
        address = ip_address((peer or "").partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


class Guard:
    """Lets in who may ask."""

    def __init__(
        self,
        token: str | None,
        networks: tuple[Network, ...],
        rate: float = RATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = None if token is None else token.encode()
        self._networks = networks
        burst = max(_SMALLEST_BURST, rate * _BURST)
        self._admitted = RateLimiter(rate, burst, clock)
        self._strangers = RateLimiter(rate, burst, clock)

    def refuse(self, peer: str | None, credentials: Sequence[bytes], hosts: Sequence[bytes] = ()) -> Refusal | None:
        """Return why a peer is not answered, by its Authorization and Host headers; None where it is."""
        address = read_peer(peer)
        is_near = address is not None and any(address in network for network in self._networks)
        is_misled = is_near and address is not None and address.is_loopback and not all(map(is_own_name, hosts))
        refusal = None if is_near and not is_misled else self._without(credentials)
        if is_misled and refusal is _FOREIGN:
            refusal = _MISLED
        buckets = self._admitted if refusal is None else self._strangers
        is_guess = refusal is _BAD_TOKEN
        wait = buckets.take(key_of(address), _WRONG_TOKEN if is_guess else 1, in_any_case=is_guess)
        if wait:
            seconds = str(math.ceil(wait))
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many requests", (("Retry-After", seconds),))
        return refusal

    def _without(self, credentials: Sequence[bytes]) -> Refusal | None:
        """Return why one who is in none of the networks is not answered."""
        if self._token is None:
            return _FOREIGN
        if not credentials:
            return _NO_TOKEN
        scheme, _, given = credentials[0].strip().partition(b" ")
        is_bearer = len(credentials) == 1 and scheme.lower() == b"bearer"
        return None if hmac.compare_digest(given.strip(), self._token) and is_bearer else _BAD_TOKEN


def is_own_name(host: bytes) -> bool:
    """Tell whether a Host header names this machine as no stranger's name server can.

    That is an address, localhost, what this machine calls itself, or a name without a dot: the world has none.
    """
    text = host.decode("latin-1").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0].removesuffix(".")
    return "." not in name or name.endswith(".localhost") or read_peer(name) is not None or name == _called()


def _called() -> str:
    return socket.gethostname().lower()


def key_of(address: Address | None) -> int | str:
    """Return what stands for a peer among others."""
    if isinstance(address, IPv6Address):
        return f"{int(address) >> (address.max_prefixlen - _SITE)}/{_SITE}"
    return "" if address is None else int(address)
