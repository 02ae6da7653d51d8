"""Answers requests for pages: looks a page up, reads what it shows, and says what is wrong where something is."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import compile_path

from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.web.pages import PAGES, Page
from standfast.dashboard.web.render import page_of, problem_of
from standfast.dashboard.web.saidonce import forget_said, said_in
from standfast.dashboard.web.site import Site, View
from standfast.errors import StandfastError

LONGEST_ADDRESS = 4000
"""So long an address may be that somebody watches."""


@dataclass(frozen=True, slots=True)
class Place:
    """A page that an address leads to, and what the address names."""

    page: Page
    names: Mapping[str, str]


_PATHS = tuple((page, compile_path(page.path)[0]) for page in PAGES)


def place_of(path: str) -> Place | None:
    """Return the page that a path leads to, if there is one."""
    for page, pattern in _PATHS:
        found = pattern.match(path)
        if found:
            return Place(page, found.groupdict())
    return None


def view_of(site: Site, request: Request, at: str, query: QueryParams, names: Mapping[str, str]) -> View:
    """Return a look at a page."""
    return View(
        site,
        site.desk_of(request),
        site.texts_of(request, f"{at}?{query}"),
        site.below(request),
        site.csrf_of(request),
        at,
        query,
        names,
        site.may_sign_out(request),
    )


async def answer(site: Site, request: Request, page: Page) -> Response:
    """Answer with a page, and what was to be said once."""
    names = {name: str(value) for name, value in request.path_params.items()}
    path = path_below(site, request)
    view = view_of(site, request, path, request.query_params, names)
    said = said_in(request)
    try:
        shown = {**await page.read(view), "said": said, "menu_at": page.menu}
        response: Response = HTMLResponse(await page_of(view, page.name, shown))
    except StandfastError as error:
        text, status = await problem_of(view, error)
        response = HTMLResponse(text, status)
    if said is not None:
        forget_said(response, view.prefix)
    return response


def path_below(site: Site, request: Request) -> str:
    """Return the path of a request below the prefix."""
    path: str = request.scope["path"]
    prefix = site.below(request)
    inside = prefix and (path == prefix or path.startswith(f"{prefix}/"))
    return (path[len(prefix) :] or "/") if inside else path


async def frame_at(site: Site, request: Request, address: str) -> str:
    """Return what changes on the page at an address below the prefix."""
    path, _, query = address[:LONGEST_ADDRESS].partition("?")
    path = unquote(path) or "/"
    place = place_of(path)
    view = view_of(site, request, path, QueryParams(query), place.names if place else {})
    try:
        if place is None:
            raise NotThereError(view.texts.say("error.no_page"))
        shown = {**await place.page.read(view), "menu_at": place.page.menu}
        return await page_of(view, place.page.name, shown, frame=True)
    except StandfastError as error:
        return (await problem_of(view, error, frame=True))[0]
