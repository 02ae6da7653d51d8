"""The routes of the API: one for each operation, the document that describes them, and what is said elsewhere."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from standfast.dashboard.api.answering import answer, refusal
from standfast.dashboard.api.document import document
from standfast.dashboard.desk import Desk
from standfast.dashboard.operations import OPERATIONS, AnyOperation

PREFIX = "/api/v1"

DeskOf = Callable[[Request], Desk]
"""Tells whose desk a request comes to; the entrance before it knows who that is."""


def routes(desk_of: DeskOf, operations: Sequence[AnyOperation] = OPERATIONS) -> list[Route]:
    """Return the routes of the API."""
    made = [_route(operation, desk_of) for operation in operations]
    made.append(Route(f"{PREFIX}/openapi.json", _describing(operations), methods=["GET"], name="api.openapi"))
    return [*made, Route(f"{PREFIX}/{{rest:path}}", _elsewhere(made), name="api.elsewhere", methods=_ALL)]


_ALL = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "CONNECT"]


def _route(operation: AnyOperation, desk_of: DeskOf) -> Route:
    async def endpoint(request: Request) -> Response:
        return await answer(operation, desk_of(request), request)

    method = "POST" if operation.changes else "GET"
    slashes = operation.path.startswith(
        ("/locks/", "/rules/")
    )  # only locks and rules of alerts may have such names
    path = operation.path.replace("}", ":path}") if slashes else operation.path
    return Route(f"{PREFIX}{path}", endpoint, methods=[method], name=f"api.{operation.name}")


def _describing(operations: Sequence[AnyOperation]) -> Callable[[Request], Awaitable[Response]]:
    async def describe(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        body = msgspec.json.encode(document(operations, f"{root}{PREFIX}"))
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    return describe


def _elsewhere(known: Sequence[Route]) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers where no operation is, or none that is asked for so."""

    async def elsewhere(request: Request) -> Response:
        near = [route for route in known if route.matches(request.scope)[0] is Match.PARTIAL]
        whole = [route for route in near if not route.param_convertors]
        allowed = {method for route in whole or near for method in route.methods or ()}
        if allowed:
            told = ", ".join(sorted(allowed))
            message = f"{request.method} is not for this path, but {told}"
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", message, {"Allow": told})
        return refusal(HTTPStatus.NOT_FOUND, "not_there", f"there is nothing at {request.scope['path']}")

    return elsewhere
