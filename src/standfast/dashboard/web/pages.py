"""The pages: where each is, and what it shows. All of it is read through operations."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from standfast.core.alert import Severity
from standfast.core.job import JobAction
from standfast.core.states import State
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.figures import FiguresSeen
from standfast.dashboard.shapes.jobs import MOST_WRITTEN
from standfast.dashboard.web.drawn import SPANS, charts_of
from standfast.dashboard.web.site import View
from standfast.store.bulk import ACTS_ON

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
        "action": meant.get("action", "retry"),
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
