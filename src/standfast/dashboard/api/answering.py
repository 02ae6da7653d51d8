"""Requests to the API and its answers, as Starlette has them."""

import asyncio
import re
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from standfast.dashboard.access.bodies import SLOWEST_BODY
from standfast.dashboard.asking import asked_by_fields, asked_by_json
from standfast.dashboard.desk import Desk
from standfast.dashboard.operations import AnyOperation
from standfast.dashboard.refusals import status_of
from standfast.dashboard.sending import file_of
from standfast.dashboard.shapes.jobs import JobsExported
from standfast.errors import StandfastError
from standfast.phrases import in_english

LONGEST_BODY = 2 * 1024 * 1024
"""Bytes of a body that is read: arguments are half of that, at most."""

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class ErrorSeen(msgspec.Struct, frozen=True):
    """What went wrong: a code for programs, words for people, and the status of the answer."""

    code: str
    message: str
    status: int


class Problem(msgspec.Struct, frozen=True):
    """The answer where something went wrong."""

    error: ErrorSeen


class _RefusedError(Exception):
    """What is wrong with a request before anybody has read it."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


async def answer(operation: AnyOperation, desk: Desk, request: Request) -> Response:
    """Do what a request asks for, and return the answer."""
    try:
        asked = await _asked(operation, request)
        told = await (desk.act if operation.changes else desk.read)(operation, asked)
    except _RefusedError as error:
        return refusal(error.status, error.status.name.lower(), str(error))
    except StandfastError as error:
        return refusal(status_of(error), code_of(error), str(error))
    return file_of(request, told) if isinstance(told, JobsExported) else _json(told)


def refusal(status: HTTPStatus, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return the answer to what is not done."""
    body = Problem(ErrorSeen(code, message, int(status)))
    return _json(body, status, headers)


def code_of(error: StandfastError) -> str:
    """Return the code of an error: `job_not_found`."""
    return _WORD.sub("_", type(error).__name__.removesuffix("Error")).lower()


async def _asked(operation: AnyOperation, request: Request) -> Any:
    named = {name: str(value) for name, value in request.path_params.items()}
    if not operation.changes:
        given = request.query_params.multi_items()
        return asked_by_fields(operation.asked, [*given, *named.items()])
    if request.query_params:
        raise _RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "what is to be done is said in the body, not in the URL"
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _body(request)
    if body and kind != "application/json":
        raise _RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be JSON, and say so (application/json)"
        )
    return asked_by_json(operation.asked, body, named)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in request.stream():
                size += len(part)
                if size > LONGEST_BODY:
                    raise _RefusedError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {LONGEST_BODY:,} bytes, at most"
                    )
                parts.append(part)
    except TimeoutError:
        raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"not sent within {SLOWEST_BODY:g} s") from None
    except ClientDisconnect:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the body ended too early") from None
    return b"".join(parts)


def _json(
    told: msgspec.Struct, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    body = msgspec.json.encode(told, enc_hook=in_english)
    return Response(body, int(status), {**_HEADERS, **(headers or {})}, media_type="application/json")
