"""Forms: POST /do/{operation} with the fields of what is asked. The page where they go back says what was done."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from standfast.dashboard.access.bodies import read_form
from standfast.dashboard.access.refusal import RefusedError
from standfast.dashboard.asking import asked_by_fields
from standfast.dashboard.operation import Operation
from standfast.dashboard.refusals import NotThereError, status_of
from standfast.dashboard.texts import Texts
from standfast.dashboard.web.freshness import mark_change
from standfast.dashboard.web.saidonce import Said, say_once
from standfast.dashboard.web.saying import Saying
from standfast.dashboard.web.site import Site
from standfast.errors import StandfastError
from standfast.phrases import phrase_in

OURS = frozenset({"csrf", "back"})
NEW_JOB = frozenset({"jobs.clone", "jobs.edit_and_retry"})
"""What makes a new job leads to it."""

_SEE_OTHER = 303


async def do(site: Site, request: Request) -> Response:
    """Do what a form asks for."""
    texts, prefix = site.texts_of(request, ""), site.below(request)
    back = "/"
    try:
        items = list(await read_form(request))
        back = safe_back(dict(items).get("back", "/"))
        texts = site.texts_of(request, back)
        operation = _wanted(site, request, texts)
        done = await site.desk_of(request).act(operation, asked_by(operation, items))
        back = _where(operation, done, back)
        again = getattr(done, "goes_on", None)
        return _answered(request, prefix + back, prefix, Said(_told(texts, operation, done)), again=again)
    except RefusedError as error:
        said = Said(texts.say(f"refused.{error.refusal.code}"), bad=True)
        return _answered(request, prefix + back, prefix, said, status=error.refusal.status)
    except StandfastError as error:
        said = Said(Saying(texts).plain(phrase_in(error)), bad=True)
        return _answered(request, prefix + back, prefix, said, status=int(status_of(error)))


def _wanted(site: Site, request: Request, texts: Texts) -> Operation[Any, Any]:
    operation = site.operations.get(request.path_params["operation"])
    if operation is None or not operation.changes:
        raise NotThereError(texts.say("error.no_operation"))
    return operation


def asked_by(operation: Operation[Any, Any], items: list[tuple[str, str]]) -> Any:
    """Return what a form asks of an operation; what else is in a form is for us."""
    return asked_by_fields(operation.asked, [(name, value) for name, value in items if name not in OURS])


def safe_back(path: str) -> str:
    """Return a path below the prefix to go back to, and nothing that leads to another site."""
    inside = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if inside and path.isprintable() else "/"


def _where(operation: Operation[Any, Any], done: Any, back: str) -> str:
    job = getattr(done, "job", None)
    return f"/jobs/{job}" if job and operation.name in NEW_JOB else back


def _told(texts: Texts, operation: Operation[Any, Any], done: Any) -> str:
    """Return what was done, in words: those for just this answer, if there are any."""
    params = {
        "name": "",
        **{key: _written(value) for key, value in msgspec.structs.asdict(done).items() if value is not None},
    }
    keys = [f"done.{operation.name}.{params.get('answer', '')}", f"done.{operation.name}", "done.anything"]
    if params.get("goes_on"):
        return texts.say("done.jobs.bulk_so_far", **params)
    if params.get("failed"):
        return texts.say("done.jobs.bulk_failed", error=Saying(texts).plain(params["errors"][0].error), **params)
    if "done" in params:
        params["n"] = params["done"]
    return texts.say(next(key for key in keys if texts.knows(key)), **params)


def _written(value: Any) -> Any:
    """Return a time as pages and the script know one in a sentence."""
    return value.astimezone(UTC).isoformat(timespec="seconds") if isinstance(value, datetime) else value


def _answered(
    request: Request, to: str, prefix: str, said: Said, *, status: int = 200, again: str | None = None
) -> Response:
    """Answer the script with what was done, and a plain form by going back, where it is said.

    The script sends the form `again` where more is to be done than one call does.
    """
    secure = request.url.scheme == "https"
    response: Response
    if request.headers.get("accept", "").startswith("application/json"):
        response = JSONResponse(
            {"text": said.text, "bad": said.bad, "to": to} | ({"again": again} if again else {}), status
        )
    else:
        response = RedirectResponse(to, _SEE_OTHER)
        say_once(response, said, prefix, secure=secure)
    mark_change(response, prefix, secure=secure)  # also where it was refused: what they saw may have been too old
    return response
