"""Where a request comes from, whether its origin may write, and the headers and cookies of each answer. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2s
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType

from standfast.observe.health.access import Address, Network, read_peer

BEARER = ("WWW-Authenticate", 'Bearer realm="standfast"')


class Code(StrEnum):
    """Why; texts for people are found by it."""

    NETWORK = "network"
    """Not from this address."""
    HOST = "host"
    """The name by which they came is not one of ours."""
    TOO_MANY = "too_many"
    """Too many requests, or too many guesses: later."""
    SIGN_IN = "sign_in"
    """Nobody is signed in, or not any more."""
    WRONG = "wrong"
    """Name, password, token or link are not right."""
    ORIGIN = "origin"
    """It comes from another site."""
    CSRF = "csrf"
    """The token of the form is missing, or is of another session."""
    TOO_LARGE = "too_large"
    BODY = "body"
    """What was sent cannot be read."""
    AUTH = "auth"
    """Whoever was to say who it is did not."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status, the code and the headers of an answer to somebody who is not let in, and words for programs."""

    status: HTTPStatus
    code: Code
    says: str
    headers: tuple[tuple[str, str], ...] = ()


class RefusedError(Exception):
    """Somebody is not let in, or what they sent is not read."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.says)
        self.refusal = refusal


def later(seconds: float) -> Refusal:
    """Return the refusal of somebody who comes too often."""
    headers = (("Retry-After", str(max(1, math.ceil(seconds)))),)
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, Code.TOO_MANY, "too many requests: try again later", headers)


# A peer is the address of its connection. What headers say about other addresses is read only where the peer is one
# of the proxies that are trusted, and then as far as the first address that is none of them: what stands before it
# may be a stranger's word.

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>\d{1,5}))?", re.ASCII)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", re.ASCII)
_LONGEST_PREFIX = 200
_DEFAULT_PORTS = {"http": "80", "https": "443"}

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in small letters."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Where a request comes from: `peer` is the connection's address, `address` that of who is behind the proxies.

    `host` is the name by which they came, None where there is not exactly one; `prefix` the path under which a
    proxy serves us.
    """

    peer: Address | None
    address: Address | None
    scheme: str
    host: str | None
    prefix: str = ""


def read_caller(peer: str | None, scheme: str, headers: Headers, proxies: Sequence[Network] = ()) -> Caller:
    """Return where a request comes from."""
    near = read_peer(peer)
    hosts = headers.get("host", ())
    host = hosts[0].lower() if len(hosts) == 1 else None
    if not is_within(near, proxies):
        return Caller(near, near, scheme, host)
    return Caller(
        near,
        _behind(near, _listed(headers, "x-forwarded-for"), proxies),
        _last(headers, "x-forwarded-proto", {"http", "https"}) or scheme,
        host,
        _prefix(headers),
    )


def is_within(address: Address | None, networks: Sequence[Network]) -> bool:
    """Tell whether an address belongs to one of the networks."""
    return address is not None and any(address in network for network in networks)


def is_host_known(caller: Caller, hosts: Sequence[str]) -> bool:
    """Tell whether they came by one of our names, as somebody whose name server lies to a browser does not.

    A name without a port is ours with any. Who comes from this machine may call it by its own names, too.
    """
    found = _HOST.fullmatch(caller.host or "")
    if found is None:
        return False
    if caller.host in hosts or found["name"] in hosts:
        return True
    return caller.peer is not None and caller.peer.is_loopback and found["name"] in LOOPBACK_HOSTS


def port_of(caller: Caller) -> str:
    """Return the port at which their browser finds us; "" where they do not say by which name they came."""
    found = _HOST.fullmatch(caller.host or "")
    return "" if found is None else found["port"] or _DEFAULT_PORTS.get(caller.scheme, "")


def origins_of(caller: Caller, hosts: Sequence[str]) -> frozenset[str]:
    """Return the origins that pages of ours can have for this caller."""
    return frozenset(_origin(caller.scheme, host) for host in (caller.host, *hosts) if host)


def _origin(scheme: str, host: str) -> str:
    return f"{scheme}://{host.removesuffix(':' + _DEFAULT_PORTS.get(scheme, ''))}"


def _behind(near: Address | None, told: Sequence[str], proxies: Sequence[Network]) -> Address | None:
    for each in reversed(told):
        far = _read_told(each)
        if not is_within(far, proxies):
            return far
        near = far
    return near


def _read_told(text: str) -> Address | None:
    """Return an address as proxies write it: some add the port, some put brackets around IPv6."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return read_peer(text)


def _listed(headers: Headers, name: str) -> list[str]:
    return [part.strip() for value in headers.get(name, ()) for part in value.split(",")]


def _last(headers: Headers, name: str, allowed: set[str]) -> str | None:
    told = _listed(headers, name)
    return told[-1].lower() if told and told[-1].lower() in allowed else None


def _prefix(headers: Headers) -> str:
    told = headers.get("x-forwarded-prefix", ())
    prefix = told[0].rstrip("/") if len(told) == 1 else ""
    return prefix if len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) else ""


def check_host(host: str) -> str:
    """Return a name under which we are reached, as it is compared. Raises ValueError."""
    name = host.strip().lower()
    if ":" in name and not name.startswith("[") and name.count(":") > 1:
        name = f"[{IPv6Address(name)}]"
    if _HOST.fullmatch(name) is None:
        raise ValueError(host)
    if name.startswith("["):
        ip_address(name[1:].partition("]")[0])
    return name


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that change nothing."""

_ELSEWHERE = Refusal(HTTPStatus.FORBIDDEN, Code.ORIGIN, "this comes from another site")
_UNKNOWN = Refusal(HTTPStatus.FORBIDDEN, Code.ORIGIN, "a write must say where it comes from: send Origin")


def refuse_origin(headers: Headers, ours: AbstractSet[str], *, needs_proof: bool) -> Refusal | None:
    """Return why a write is refused for where it comes from.

    Browsers say it themselves, in Sec-Fetch-Site or at least in Origin, and pages cannot change it. What says
    neither is a program: `needs_proof` refuses it where one is known by a cookie, which browsers send unasked.
    """
    sites, origins = headers.get("sec-fetch-site", ()), headers.get("origin", ())
    if any(origin.lower() not in ours for origin in origins):
        return _ELSEWHERE
    allowed = {"same-origin"} if needs_proof else {"same-origin", "none"}
    if any(site not in allowed for site in sites):
        return _ELSEWHERE
    return _UNKNOWN if needs_proof and not sites and not origins else None


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

_ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
}

HEADERS = MappingProxyType(_ALWAYS | {"Cache-Control": "no-store"})
"""Headers of all answers but those of static files."""

STATIC_HEADERS = MappingProxyType(_ALWAYS | {"Cache-Control": "public, max-age=31536000, immutable"})
"""Headers of static files that are asked for by the hash of what they contain."""


def cookie_name(kind: str, port: str, base: str) -> str:
    """Return the name of a cookie for those who find us at this port, below this path.

    Browsers send the cookies of a host to all its ports, and those of a path to all below it: of several dashboards
    on one host each needs names of its own, or who signs in to one is signed out of the others.
    """
    return f"{kind}_{blake2s(f'{port}{base}'.encode(), digest_size=4).hexdigest()}"


def cookie(name: str, value: str, *, path: str, secure: bool, lasts: int | None = None) -> str:
    """Return a Set-Cookie header: for us alone, not for scripts, and not sent along by other sites.

    Without `lasts` it goes when the browser is closed; with 0 it goes at once.
    """
    age = "" if lasts is None else f"; Max-Age={lasts}"
    return f"{name}={value}; Path={path}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{age}"


LONGEST_PATH = 2000
_LOCAL = re.compile(r"/(?![/\\])[!#-\[\]^-~]*", re.ASCII)
"""A path with its query: printable ASCII without quotes, backslashes and spaces, and not another host's."""


def local_path(asked: str | None, prefix: str = "") -> str:
    """Return a path below the prefix as it was asked for; the first page where it is none, or leads elsewhere."""
    home = f"{prefix}/"
    if not asked or len(asked) > LONGEST_PATH or not _LOCAL.fullmatch(asked):
        return home
    path = asked.partition("?")[0].partition("#")[0]
    climbs = any(part in {".", ".."} for part in path.lower().replace("%2e", ".").replace("%2f", "/").split("/"))
    return asked if path.startswith(home) and "//" not in path and not climbs else home
