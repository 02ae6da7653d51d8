"""The JSON API, made from the operations, and the OpenAPI document that describes it."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from standfast.admin.executor import OperationContext
from standfast.admin.job_search import JobsExported
from standfast.admin.operation import Role, status_of
from standfast.admin.registry import OPERATIONS, AnyOperation
from standfast.dashboard.access.caller import Code, Refusal, RefusedError
from standfast.dashboard.access.request import JSON, kind_of, read_bytes
from standfast.dashboard.transport import LONGEST_BODY, asked_by_fields, asked_by_json, file_of
from standfast.errors import StandfastError
from standfast.model.display import standfast_version
from standfast.model.phrases import Phrase, in_english

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


async def answer(operation: AnyOperation, context: OperationContext, request: Request) -> Response:
    """Do what a request asks for, and return the answer."""
    try:
        asked = await _asked(operation, request)
        told = await (context.act if operation.changes else context.read)(operation, asked)
    except RefusedError as error:
        status = error.refusal.status
        return refusal(status, status.name.lower(), error.refusal.says)
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
        raise _wrong(HTTPStatus.UNPROCESSABLE_ENTITY, "what is to be done is said in the body, not in the URL")
    body = await read_bytes(request, LONGEST_BODY)
    if body and kind_of(request) != JSON:
        raise _wrong(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be JSON, and say so (application/json)")
    return asked_by_json(operation.asked, body, named)


def _wrong(status: HTTPStatus, says: str) -> RefusedError:
    return RefusedError(Refusal(status, Code.BODY, says))


def _json(
    told: msgspec.Struct, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    body = msgspec.json.encode(told, enc_hook=in_english)
    return Response(body, int(status), {**_HEADERS, **(headers or {})}, media_type="application/json")


Schema = dict[str, Any]

_REF = "#/components/schemas/{name}"
_NAMED = re.compile(r"{(\w+)}")
_COOKIE = "That of a browser that is signed in. Its name goes on with `_` and a mark of port and path."

_ALWAYS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_OF_ACTS = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)

_ABOUT = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.UNAUTHORIZED: "Nobody knows who you are: sign in, or give a token.",
    HTTPStatus.FORBIDDEN: "Your role does not permit this, or the dashboard only shows.",
    HTTPStatus.NOT_FOUND: "What is asked for does not exist.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The path is for another method.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not come in time.",
    HTTPStatus.CONFLICT: "It is not in a state in which this can be done.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"The body has more than {LONGEST_BODY:,} bytes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "It cannot be meant: a field is missing, unknown, or says what it cannot.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests: wait for as long as Retry-After says.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The store does not answer.",
}


def document(operations: Sequence[AnyOperation], server: str) -> Schema:
    """Return the document that describes the API at this address."""
    types = [
        *(kind for each in operations for kind in (each.asked, each.answer) if kind is not JobsExported),
        Problem,
    ]
    _, schemas = msgspec.json.schema_components(
        list(dict.fromkeys(types)), ref_template=_REF, schema_hook=_in_words
    )
    paths: dict[str, Schema] = {}
    for operation in operations:
        method = "post" if operation.changes else "get"
        paths.setdefault(operation.path, {})[method] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Standfast dashboard",
            "version": standfast_version(),
            "description": "What the pages of the dashboard show and do, as JSON. Pages go on at `next`.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": _without_asked(schemas, operations),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "standfast_session", "description": _COOKIE},
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _in_words(kind: type) -> Schema:
    """Return how a phrase is written in JSON: in English."""
    if kind is not Phrase:
        raise NotImplementedError
    return {"type": "string"}


def _operation(operation: AnyOperation, schemas: dict[str, Schema]) -> Schema:
    summary, _, about = operation.about.partition("\n")
    role = f"For {operation.role.name.lower()}s{'' if operation.role is Role.ADMIN else ' and those above'}."
    asked = schemas[operation.asked.__name__]
    named = _NAMED.findall(operation.path)
    told: Schema = {
        "operationId": operation.name,
        "summary": summary.rstrip("."),
        "description": "\n\n".join(filter(None, (" ".join(about.split()), role))),
        "tags": [operation.name.partition(".")[0]],
        "parameters": list(_parameters(asked, named, whole=not operation.changes)),
        "responses": dict(_responses(operation)),
    }
    if operation.changes:
        told["requestBody"] = _request_body(asked, named)
    return told


def _parameters(asked: Schema, named: Sequence[str], *, whole: bool) -> Iterator[Schema]:
    """Yield what the path names and, where the `whole` of what is asked is in the URL, the rest."""
    for name, schema in asked.get("properties", {}).items():
        if name in named:
            yield {"name": name, "in": "path", "required": True, "schema": {**schema, "minLength": 1}}
        elif whole:
            required = name in asked.get("required", ())
            yield {"name": name, "in": "query", "required": required, "schema": _not_null(schema)}


def _not_null(schema: Schema) -> Schema:
    """Return the schema of a text in a URL, where nothing is null: what is not said is left out."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    bare = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    merged = {**bare, **kinds[0]} if len(kinds) == 1 else dict(schema)
    if schema.get("default") is not None:
        merged["default"] = schema["default"]
    return merged


def _request_body(asked: Schema, named: Sequence[str]) -> Schema:
    properties = {name: each for name, each in asked.get("properties", {}).items() if name not in named}
    required = [name for name in asked.get("required", ()) if name not in named]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _responses(operation: AnyOperation) -> Iterator[tuple[str, Schema]]:
    content: Schema = {"application/json": {"schema": {"$ref": _REF.format(name=operation.answer.__name__)}}}
    if operation.answer is JobsExported:
        content = {
            "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
            "text/csv": {"schema": {"type": "string"}},
        }
    yield "200", {"description": "Done.", "content": content}
    problem = {"application/json": {"schema": {"$ref": _REF.format(name=Problem.__name__)}}}
    for status in (*_ALWAYS, *(_OF_ACTS if operation.changes else ())):
        yield str(int(status)), {"description": _ABOUT[status], "content": problem}


def _without_asked(schemas: dict[str, Schema], operations: Sequence[AnyOperation]) -> dict[str, Schema]:
    """Return the schemas of answers: what is asked stands with each operation."""
    asked = {operation.asked.__name__ for operation in operations}
    return {name: schema for name, schema in schemas.items() if name not in asked}


PREFIX = "/api/v1"

ContextOf = Callable[[Request], OperationContext]
"""Returns the context in which a request is answered: the middleware has found out who sends it."""


def routes(context_of: ContextOf, operations: Sequence[AnyOperation] = OPERATIONS) -> list[Route]:
    """Return the routes of the API."""
    made = [_route(operation, context_of) for operation in operations]
    made.append(Route(f"{PREFIX}/openapi.json", _describing(operations), methods=["GET"], name="api.openapi"))
    return [*made, Route(f"{PREFIX}/{{rest:path}}", _elsewhere(made), name="api.elsewhere", methods=_ALL)]


_ALL = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "CONNECT"]


def _route(operation: AnyOperation, context_of: ContextOf) -> Route:
    async def endpoint(request: Request) -> Response:
        return await answer(operation, context_of(request), request)

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
