"""The pages: where each is, and what it shows. All of it is read through operations."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import compile_path

from standfast.admin.figures import FiguresSeen
from standfast.admin.job_search import MOST_WRITTEN
from standfast.admin.operation import NotThereError
from standfast.dashboard.web.charts import SPANS, charts_of
from standfast.dashboard.web.cookies import clear_flash, read_flash
from standfast.dashboard.web.render import page_of, problem_of
from standfast.dashboard.web.site import Site, View
from standfast.errors import StandfastError
from standfast.model.alerts import Severity
from standfast.model.job import ACTS_ON, JobAction
from standfast.model.states import State

Shown = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its template is called as the page is, and `menu` is its place in the navigation."""

    name: str
    path: str
    read: Callable[[View], Awaitable[Shown]]
    menu: str


async def overview(view: View) -> Shown:
    """Show whether all is well, and what happens."""
    return {"seen": await view.read("overview.show"), **await _figures(view)}


async def _figures(view: View, **of: str) -> Shown:
    span = view.query.get("span", SPANS[0])
    figures: FiguresSeen = await view.read("figures.show", span=span if span in SPANS else SPANS[0], **of)
    return {"figures": figures, "charts": charts_of(figures, view.texts), "spans": SPANS}


async def jobs(view: View) -> Shown:
    """Show jobs, those that the address asks for."""
    asked = view.asked(view.site.operations["jobs.list"])
    meant = {name: value for name, value in asked.items() if name not in {"before", "limit"}}
    seen = await view.read("jobs.list", **asked)
    actions = [each.value for each, states in ACTS_ON.items() if _can_act(view, each, states & _states(asked))]
    shown = {"asked": asked, "meant": meant, "states": list(State), "most_written": MOST_WRITTEN}
    return {"seen": seen, "actions": actions, **shown}


def _can_act(view: View, action: JobAction, states: frozenset[State]) -> bool:
    """Tell whether something can be done to jobs in any of these states, by who looks."""
    return bool(states) and (action is not JobAction.DISCARD or view.may("jobs.discard"))


def _states(asked: Shown) -> frozenset[State]:
    """Return in which states jobs can be that are asked for."""
    if asked.get("fingerprint"):
        return frozenset({State.DEAD})
    return frozenset(map(State, asked.get("state", ()))) or frozenset(State)


async def bulk(view: View) -> Shown:
    """Ask whether something is really meant for so many jobs."""
    meant = view.asked(view.site.operations["jobs.count"])
    counted = await view.read("jobs.count", **meant)
    return {"counted": counted, "meant": {key: value for key, value in meant.items() if key != "action"}} | {
        "action": meant.get("action", "retry")
    }


async def job(view: View) -> Shown:
    """Show all there is about a job."""
    return {"seen": await view.read("jobs.show", id=view.names["id"])}


async def dead(view: View) -> Shown:
    """Show dead jobs by what went wrong."""
    return {"seen": await view.read_query("dead.groups")}


async def queue(view: View) -> Shown:
    """Show one queue."""
    name = view.names["name"]
    return {"seen": await view.read("queues.show", name=name), **await _figures(view, queue=name)}


async def schedule(view: View) -> Shown:
    """Show one schedule."""
    return {"seen": await view.read("schedules.show", name=view.names["name"])}


async def worker(view: View) -> Shown:
    """Show one worker."""
    return {"seen": await view.read("workers.show", id=view.names["id"])}


async def task(view: View) -> Shown:
    """Show one task, as workers have told of it, and its figures."""
    name = view.names["name"]
    known = (await view.read("tasks.list")).tasks
    found = next((each for each in known if each.name == name), None)
    if found is None:
        raise NotThereError(view.texts.say("tasks.unknown", name=name))
    return {"seen": found, **await _figures(view, task=name)}


async def incident(view: View) -> Shown:
    """Show one incident with its evidence."""
    return {"seen": await view.read("incidents.show", id=view.names["id"])}


async def alerts(view: View) -> Shown:
    """Show what is wrong now, what is silenced, and what people were told."""
    asked = view.asked(view.site.operations["alerts.history"])
    history = await view.read("alerts.history", **asked)
    return {"seen": await view.read("alerts.list"), "history": history, "asked": asked}


async def rules(view: View) -> Shown:
    """Show the rules of alerts."""
    return {"seen": await view.read("rules.list"), "severities": list(Severity)}


def _list(operation: str) -> Callable[[View], Awaitable[Shown]]:
    """Return what shows the answer of an operation to what the address asks."""

    async def read(view: View) -> Shown:
        return {"seen": await view.read_query(operation), "asked": view.asked(view.site.operations[operation])}

    return read


PAGES = (
    Page("overview", "/", overview, "overview"),
    Page("jobs", "/jobs", jobs, "jobs"),
    Page("bulk", "/jobs/bulk", bulk, "jobs"),
    Page("job", "/jobs/{id}", job, "jobs"),
    Page("dead", "/dead", dead, "dead"),
    Page("queues", "/queues", _list("queues.list"), "queues"),
    Page("queue", "/queues/{name:path}", queue, "queues"),
    Page("schedules", "/schedules", _list("schedules.list"), "schedules"),
    Page("schedule", "/schedules/{name:path}", schedule, "schedules"),
    Page("workers", "/workers", _list("workers.list"), "workers"),
    Page("worker", "/workers/{id:path}", worker, "workers"),
    Page("tasks", "/tasks", _list("tasks.list"), "tasks"),
    Page("task", "/tasks/{name:path}", task, "tasks"),
    Page("locks", "/locks", _list("locks.list"), "locks"),
    Page("alerts", "/alerts", alerts, "alerts"),
    Page("rules", "/alerts/rules", rules, "alerts"),
    Page("objectives", "/objectives", _list("objectives.list"), "objectives"),
    Page("incidents", "/incidents", _list("incidents.list"), "incidents"),
    Page("incident", "/incidents/{id}", incident, "incidents"),
    Page("audit", "/audit", _list("audit.list"), "audit"),
    Page("settings", "/settings", _list("settings.show"), "settings"),
)


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
        site.context_of(request),
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
    said = read_flash(request)
    try:
        shown = {**await page.read(view), "said": said, "menu_at": page.menu}
        response: Response = HTMLResponse(await page_of(view, page.name, shown))
    except StandfastError as error:
        text, status = await problem_of(view, error)
        response = HTMLResponse(text, status)
    if said is not None:
        clear_flash(response, view.prefix)
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
