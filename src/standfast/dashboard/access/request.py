"""Check the network, host and size of a request, and read its body."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from standfast.dashboard.access.caller import (
    Caller,
    Code,
    Headers,
    Refusal,
    RefusedError,
    check_host,
    cookie,
    cookie_name,
    is_host_known,
    is_within,
    origins_of,
    port_of,
    read_caller,
    refuse_origin,
)
from standfast.errors import ConfigurationError
from standfast.observe.health.access import read_networks

_TWO_LENGTHS = Refusal(
    HTTPStatus.BAD_REQUEST,
    Code.BODY,
    "Content-Length or Transfer-Encoding, and not both",
    (("Connection", "close"),),  # a proxy may have seen another end of it: what comes next is nobody's word
)


class RequestPolicy:
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


LARGEST_BODY = 256 * 1024
MOST_FIELDS = 200
SLOWEST_BODY = 20.0
"""Seconds within which a body is there: who sends it a byte at a time holds a place that others need."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

_SLOW = Refusal(HTTPStatus.REQUEST_TIMEOUT, Code.BODY, f"not sent within {SLOWEST_BODY:g} s")
_MANY = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.TOO_LARGE, f"more than {MOST_FIELDS} fields")

T = TypeVar("T")


class Form:
    """The fields of a form. A name may have several values."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = tuple(fields)

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a field."""
        return next((value for each, value in self._fields if each == name), default)

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        return tuple(value for each, value in self._fields if each == name)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)


async def read_bytes(request: Request, most: int = LARGEST_BODY) -> bytes:
    """Return what was sent, `most` bytes. Raises RefusedError if it is too large, as soon as that is known."""
    kept: bytes | None = getattr(request.state, "standfast_body", None)
    if kept is not None:
        return kept
    told = request.headers.get("content-length", "0")
    if not told.isdecimal() or len(told) > len(str(most)) or int(told) > most:
        raise RefusedError(_large(most))
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise RefusedError(_large(most))
    except TimeoutError as error:
        raise RefusedError(_SLOW) from error
    except ClientDisconnect as error:
        raise RefusedError(_bad("they went away")) from error
    request.state.standfast_body = bytes(body)
    return bytes(body)


async def read_form(request: Request) -> Form:
    """Return the fields of a form that was sent, as often as one asks. Raises RefusedError."""
    if kind_of(request) != FORM:
        raise RefusedError(_other(FORM))
    return parse_form(await read_bytes(request))


def parse_form(body: bytes) -> Form:
    """Return the fields of a form. Raises RefusedError."""
    if body.count(b"&") >= MOST_FIELDS:
        raise RefusedError(_MANY)
    try:
        return Form(parse_qsl(body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict"))
    except ValueError as error:
        raise RefusedError(_bad("this is no form")) from error


async def read_json(request: Request, kind: type[T]) -> T:
    """Return the JSON that was sent. Raises RefusedError: also where it is nested too deeply."""
    if kind_of(request) != JSON:
        raise RefusedError(_other(JSON))
    return parse_json(await read_bytes(request), kind)


def parse_json(body: bytes, kind: type[T]) -> T:
    """Return what JSON says. Raises RefusedError."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise RefusedError(Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, Code.BODY, str(error))) from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RefusedError(_bad(f"this is no JSON: {error}")) from error
    except RecursionError as error:
        raise RefusedError(_bad("this JSON is nested too deeply")) from error


def kind_of(request: Request) -> str:
    """Return the media type of what was sent."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _large(most: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.TOO_LARGE, f"a body has {most:,} bytes, at most")


def _bad(says: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, Code.BODY, says)


def _other(kind: str) -> Refusal:
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Code.BODY, f"send {kind}")
