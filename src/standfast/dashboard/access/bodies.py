"""What is sent to us: read as far as its limits, and no further."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from standfast.dashboard.access.refusal import Code, Refusal, RefusedError

LARGEST_BODY = 256 * 1024
MOST_FIELDS = 200
SLOWEST_BODY = 20.0
"""Seconds within which a body is there: who sends it a byte at a time holds a place that others need."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

_LARGE = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.TOO_LARGE, f"more than {LARGEST_BODY:,} bytes")
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


async def read_bytes(request: Request) -> bytes:
    """Return what was sent. Raises RefusedError if it is too large, as soon as that is known."""
    kept: bytes | None = getattr(request.state, "standfast_body", None)
    if kept is not None:
        return kept
    told = request.headers.get("content-length", "0")
    if not told.isdecimal() or len(told) > len(str(LARGEST_BODY)) or int(told) > LARGEST_BODY:
        raise RefusedError(_LARGE)
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise RefusedError(_LARGE)
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


def _bad(says: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, Code.BODY, says)


def _other(kind: str) -> Refusal:
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Code.BODY, f"send {kind}")
