"""Where a request comes from, and by which name. Pure.

A peer is the address of its connection. What headers say about other addresses is read only where the peer is one
of the proxies that are trusted, and then as far as the first address that is none of them: what stands before it
may be a stranger's word.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from standfast.health.guard import Address, Network, read_peer

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
