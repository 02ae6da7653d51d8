"""The OpenAPI document, made from the operations. Pure."""

import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from standfast.dashboard.access.user import Role
from standfast.dashboard.api.answering import LONGEST_BODY, Problem
from standfast.dashboard.operations import AnyOperation
from standfast.dashboard.shapes.jobs import JobsExported
from standfast.phrases import Phrase
from standfast.words import standfast_version

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
        told["requestBody"] = _body(asked, named)
    return told


def _parameters(asked: Schema, named: Sequence[str], *, whole: bool) -> Iterator[Schema]:
    """Yield what the path names and, where the `whole` of what is asked is in the URL, the rest."""
    for name, schema in asked.get("properties", {}).items():
        if name in named:
            yield {"name": name, "in": "path", "required": True, "schema": _in_path(schema)}
        elif whole:
            required = name in asked.get("required", ())
            yield {"name": name, "in": "query", "required": required, "schema": _not_null(schema)}


def _in_path(schema: Schema) -> Schema:
    return {**schema, "minLength": 1}


def _not_null(schema: Schema) -> Schema:
    """Return the schema of a text in a URL, where nothing is null: what is not said is left out."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    bare = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    merged = {**bare, **kinds[0]} if len(kinds) == 1 else dict(schema)
    if schema.get("default") is not None:
        merged["default"] = schema["default"]
    return merged


def _body(asked: Schema, named: Sequence[str]) -> Schema:
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
    yield "200", {"description": "It is so, or done.", "content": content}
    problem = {"application/json": {"schema": {"$ref": _REF.format(name=Problem.__name__)}}}
    for status in (*_ALWAYS, *(_OF_ACTS if operation.changes else ())):
        yield str(int(status)), {"description": _ABOUT[status], "content": problem}


def _without_asked(schemas: dict[str, Schema], operations: Sequence[AnyOperation]) -> dict[str, Schema]:
    """Return the schemas of answers: what is asked stands with each operation."""
    asked = {operation.asked.__name__ for operation in operations}
    return {name: schema for name, schema in schemas.items() if name not in asked}
