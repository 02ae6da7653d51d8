"""The way to the entrance: from which networks, by which names, through which proxies, under which path."""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

from starlette.requests import Request

from standfast.dashboard.access.caller import (
    Caller,
    Headers,
    check_host,
    is_host_known,
    is_within,
    origins_of,
    port_of,
    read_caller,
)
from standfast.dashboard.access.headers import cookie, cookie_name
from standfast.dashboard.access.origin import refuse_origin
from standfast.dashboard.access.refusal import Code, Refusal, RefusedError
from standfast.errors import ConfigurationError
from standfast.health.guard import read_networks

_TWO_LENGTHS = Refusal(
    HTTPStatus.BAD_REQUEST,
    Code.BODY,
    "Content-Length or Transfer-Encoding, and not both",
    (("Connection", "close"),),  # a proxy may have seen another end of it: what comes next is nobody's word
)


class Approach:
    """Says where requests come from, and refuses those that come from where nobody should."""

    def __init__(
        self,
        *,
        networks: Sequence[str] | None,
        hosts: Sequence[str] | None,
        trusted_proxies: Sequence[str],
        secure: bool | None,
        prefix: str,
    ) -> None:
        self._networks = None if networks is None else read_networks(networks)
        self._hosts = None if hosts is None else tuple(map(_read_host, hosts))
        self._proxies = read_networks(trusted_proxies)
        self._secure = secure
        self.prefix = prefix.rstrip("/")

    def look_at(self, request: Request) -> Caller:
        """Return where a request comes from. Raises RefusedError."""
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            raise RefusedError(_TWO_LENGTHS)
        peer = None if request.client is None else request.client.host
        scheme = "https" if self._secure else str(request.scope["scheme"])
        mounted = str(request.scope.get("root_path", "")).rstrip("/")
        caller = read_caller(peer, scheme, _headers(request), self._proxies)
        caller = replace(caller, prefix=caller.prefix + mounted)
        if self._networks is not None and not is_within(caller.address, self._networks):
            raise RefusedError(Refusal(HTTPStatus.FORBIDDEN, Code.NETWORK, "not for this address"))
        if self._hosts is not None and not is_host_known(caller, self._hosts):
            status = HTTPStatus.BAD_REQUEST if caller.host is None else HTTPStatus.MISDIRECTED_REQUEST
            raise RefusedError(Refusal(status, Code.HOST, "this is not reached by that name"))
        return caller

    def demand_origin(self, request: Request, caller: Caller, *, needs_proof: bool = True) -> None:
        """Raise RefusedError where a write comes from another site, or does not say from where."""
        refusal = refuse_origin(_headers(request), origins_of(caller, self._hosts or ()), needs_proof=needs_proof)
        if refusal is not None:
            raise RefusedError(refusal)

    def base(self, caller: Caller) -> str:
        """Return the path under which their browser finds us, "" at the top."""
        return caller.prefix + self.prefix

    def read_cookie(self, kind: str, request: Request, caller: Caller) -> str:
        """Return the value of a cookie of ours, "" where they have none."""
        return request.cookies.get(self._name(kind, caller), "")

    def cookie(self, kind: str, value: str, caller: Caller, *, lasts: int | None = None) -> str:
        """Return a Set-Cookie header for them."""
        secure = caller.scheme == "https" if self._secure is None else self._secure
        name = self._name(kind, caller)
        return cookie(name, value, path=self.base(caller) or "/", secure=secure, lasts=lasts)

    def _name(self, kind: str, caller: Caller) -> str:
        return cookie_name(kind, port_of(caller), self.base(caller))


def _headers(request: Request) -> Headers:
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), []).append(value)
    return headers


def _read_host(host: str) -> str:
    try:
        return check_host(host)
    except ValueError as error:
        raise ConfigurationError(f"{host!r} is no name of a host; write e.g. jobs.example.org") from error
