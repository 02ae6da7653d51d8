"""The routes of the pages, and forms: POST /do/{operation}, whose result the next page shows."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from re import compile as pattern
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from standfast.admin.operation import NotThereError, Operation, status_of
from standfast.dashboard.access.caller import RefusedError
from standfast.dashboard.access.request import read_form
from standfast.dashboard.texts import LANGUAGE_COOKIE, LANGUAGES
from standfast.dashboard.transport import asked_by_fields, file_of
from standfast.dashboard.web import assets
from standfast.dashboard.web.cookies import FlashMessage, mark_change, set_cookie, set_flash
from standfast.dashboard.web.formatting import Formatter
from standfast.dashboard.web.live import LiveStream
from standfast.dashboard.web.pages import PAGES, answer, frame_at, path_below, view_of
from standfast.dashboard.web.render import problem_of
from standfast.dashboard.web.site import Site
from standfast.errors import StandfastError
from standfast.model.phrases import Texts, phrase_in

OURS = frozenset({"csrf", "back"})
NEW_JOB = frozenset({"jobs.clone", "jobs.edit_and_retry"})
"""What makes a new job leads to it."""

_SEE_OTHER = 303


async def submit_form(site: Site, request: Request) -> Response:
    """Do what a form asks for."""
    texts, prefix = site.texts_of(request, ""), site.below(request)
    back = "/"
    try:
        items = list(await read_form(request))
        back = safe_back(dict(items).get("back", "/"))
        texts = site.texts_of(request, back)
        operation = _wanted(site, request, texts)
        done = await site.context_of(request).act(operation, asked_by(operation, items))
        back = _where(operation, done, back)
        again = getattr(done, "goes_on", None)
        return _answered(request, prefix + back, prefix, FlashMessage(_told(texts, operation, done)), again=again)
    except RefusedError as error:
        said = FlashMessage(texts.say(f"refused.{error.refusal.code}"), bad=True)
        return _answered(request, prefix + back, prefix, said, status=error.refusal.status)
    except StandfastError as error:
        said = FlashMessage(Formatter(texts).plain(phrase_in(error)), bad=True)
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
        return texts.say("done.jobs.bulk_failed", error=Formatter(texts).plain(params["errors"][0].error), **params)
    if "done" in params:
        params["n"] = params["done"]
    return texts.say(next(key for key in keys if texts.knows(key)), **params)


def _written(value: Any) -> Any:
    """Return a time as pages and the script know one in a sentence."""
    return value.astimezone(UTC).isoformat(timespec="seconds") if isinstance(value, datetime) else value


def _answered(
    request: Request, to: str, prefix: str, said: FlashMessage, *, status: int = 200, again: str | None = None
) -> Response:
    """Answer the script with what was done, and a plain form by going back, where it is said.

    The script sends the form `again` where more is to be done than one call does.
    """
    response: Response
    if request.headers.get("accept", "").startswith("application/json"):
        response = JSONResponse(
            {"text": said.text, "bad": said.bad, "to": to} | ({"again": again} if again else {}), status
        )
    else:
        response = RedirectResponse(to, _SEE_OTHER)
        set_flash(request, response, said, prefix)
    mark_change(request, response, prefix)  # also where it was refused: what they saw may have been too old
    return response


_ID = pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}")
_YEAR = 365 * 86400

Answering = Callable[[Request], Awaitable[Response]]


def routes(site: Site) -> list[Route]:
    """Return all routes: pages, live updates, forms, the files that pages need."""

    def bound(function: Callable[[Site, Request], Awaitable[Response]]) -> Answering:
        async def answering(request: Request) -> Response:
            return await function(site, request)

        return answering

    async def page(request: Request, *, of: int) -> Response:
        return await answer(site, request, PAGES[of])

    return [
        Route("/live", LiveStream(site).watch, methods=["GET"]),
        Route("/frame", bound(_frame), methods=["GET"]),
        Route("/find", bound(_find), methods=["GET"]),
        Route("/lang", bound(_speak), methods=["POST"]),
        Route("/jobs/export", bound(_export), methods=["GET"]),
        Route("/do/{operation}", bound(submit_form), methods=["POST"]),
        Route("/static/{name}", assets.serve, methods=["GET"]),
        *(Route(each.path, partial(page, of=n), methods=["GET"]) for n, each in enumerate(PAGES)),
    ]


def nowhere(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers where there is no page: one that says so, and leads back."""

    async def answering(request: Request, _error: Exception) -> Response:
        view = view_of(site, request, path_below(site, request), request.query_params, {})
        return HTMLResponse(*await problem_of(view, NotThereError(view.texts.say("error.no_page"))))

    return answering


async def _frame(site: Site, request: Request) -> Response:
    """Answer with what changes on a page, for scripts that cannot watch."""
    text = await frame_at(site, request, request.query_params.get("at", "/"))
    return HTMLResponse(text, headers={"cache-control": "no-store"})


async def _find(site: Site, request: Request) -> Response:
    """Lead to the job whose id, or the end of it, was typed, or else to all jobs with these words."""
    wanted = request.query_params.get("text", "").strip()
    view = view_of(site, request, "/find", request.query_params, {})
    job = _ID.fullmatch(wanted.lower())
    to = view.href("/jobs/{}", wanted.lower()) if job else view.href("/jobs", text=wanted)
    return RedirectResponse(to, _SEE_OTHER)


async def _speak(site: Site, request: Request) -> Response:
    """Keep the language that somebody chose."""
    try:
        form = dict(await read_form(request))
    except RefusedError:
        form = {}
    prefix = site.below(request)
    response = RedirectResponse(prefix + safe_back(form.get("back", "/")), _SEE_OTHER)
    if form.get("lang") in LANGUAGES:
        set_cookie(request, response, LANGUAGE_COOKIE, form["lang"], lasts=_YEAR, prefix=prefix)
    return response


async def _export(site: Site, request: Request) -> Response:
    """Answer with jobs as a file."""
    view = view_of(site, request, "/jobs", request.query_params, {})
    try:
        exported = await view.read_query("jobs.export")
    except StandfastError as error:
        return HTMLResponse(*await problem_of(view, error))
    return file_of(request, exported)
