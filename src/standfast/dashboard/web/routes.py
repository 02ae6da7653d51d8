"""The routes of the pages. Whoever serves them lets people in first: nothing here asks who somebody is."""

from collections.abc import Awaitable, Callable
from functools import partial
from re import compile as pattern

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from standfast.dashboard.access.bodies import read_form
from standfast.dashboard.access.refusal import RefusedError
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.sending import file_of
from standfast.dashboard.texts import LANGUAGES
from standfast.dashboard.texts.language import COOKIE
from standfast.dashboard.web import assets
from standfast.dashboard.web.answering import answer, frame_at, path_below, view_of
from standfast.dashboard.web.doing import do, safe_back
from standfast.dashboard.web.live import Gallery
from standfast.dashboard.web.pages import PAGES
from standfast.dashboard.web.render import problem_of
from standfast.dashboard.web.site import Site
from standfast.errors import StandfastError

_ID = pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}")
_SEE_OTHER = 303
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
        Route("/live", Gallery(site).watch, methods=["GET"]),
        Route("/frame", bound(_frame), methods=["GET"]),
        Route("/find", bound(_find), methods=["GET"]),
        Route("/lang", bound(_speak), methods=["POST"]),
        Route("/jobs/export", bound(_export), methods=["GET"]),
        Route("/do/{operation}", bound(do), methods=["POST"]),
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
        secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE, form["lang"], _YEAR, path=prefix or "/", httponly=True, samesite="strict", secure=secure
        )
    return response


async def _export(site: Site, request: Request) -> Response:
    """Answer with jobs as a file."""
    view = view_of(site, request, "/jobs", request.query_params, {})
    try:
        exported = await view.read_query("jobs.export")
    except StandfastError as error:
        return HTMLResponse(*await problem_of(view, error))
    return file_of(request, exported)
