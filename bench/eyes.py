"""Measures the dashboard over a store with many finished jobs: every page and every read, at the server.

Requests are made of the ASGI app in this process, one after the other, and nothing that was seen is remembered from
one to the next. Then ten viewers watch while a worker drains jobs: what their looks add to the work of the store.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from urllib.parse import quote, urlsplit

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from crowded import COMMON, RARE, Known, Sizes, fill
from places import PLACES, Place
from settled import settle
from standfast import Standfast
from standfast.admin.bulk_jobs import group_dead
from standfast.admin.operation import Role, User
from standfast.dashboard import Dashboard
from standfast.dashboard.transport import asked_by_fields
from viewers import AIM as VIEWERS_AIM
from viewers import scope_of, watched

AIM = 200.0
"""Milliseconds that a page may take, at most."""

FINISHED = {"sqlite": 1_000_000, "postgres": 1_000_000, "redis": 200_000}
OK = 200


@dataclass(frozen=True, slots=True)
class Figure:
    """How long a request took, in milliseconds, and the size of its answer."""

    path: str
    median: float
    highest: float
    cpu: float
    """Least processor time of this process: on a busy machine it says more."""
    size: int
    met: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill, measure and print."""
    parser = argparse.ArgumentParser(prog="bench eyes", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(FINISHED)} (default: all)")
    parser.add_argument("--jobs", type=int, help="finished jobs (default 1,000,000; on redis 200,000)")
    parser.add_argument("--dead", type=int, default=5_000, help="so many of them are dead (default 5,000)")
    parser.add_argument("--left", type=int, default=200, help="ready, scheduled and running, each (default 200)")
    parser.add_argument("--page", action="append", metavar="PATH", help="measure this page alone, or with others")
    parser.add_argument("--rounds", type=int, default=5, help="requests of each page (default 5)")
    parser.add_argument("--viewers", type=int, default=10, help="how many watch (default 10)")
    parser.add_argument("--seconds", type=float, default=20, help="for how long they watch (default 20)")
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args(arguments)
    unknown = set(options.stores) - FINISHED.keys()
    if unknown:
        parser.error(f"no store is called {unknown.pop()}: choose from {', '.join(FINISHED)}")
    report = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for store in options.stores or FINISHED:
            finished = options.jobs or FINISHED[store]
            sizes = Sizes(finished, min(options.dead, finished), options.left)
            report[store] = _measure(store, sizes, options, progress)
    print(json.dumps(report, indent=2)) if options.json else _show(report)


def _measure(store: str, sizes: Sizes, options: argparse.Namespace, progress: Progress) -> dict[str, object]:
    bar = progress.add_task(f"{store}: {sizes.finished:,} jobs", total=sizes.finished)
    with PLACES[store]() as places, places() as place:
        began = time.perf_counter()
        with Standfast(url=place.url) as app:
            known = fill(app, sizes, lambda jobs: progress.advance(bar, jobs))
            settled = settle(app, place)
        filled = time.perf_counter() - began
        pages = asyncio.run(_pages(place, known, options, progress))
        seen = watched(place, options.viewers, options.seconds) if options.viewers else None
    return {
        "jobs": sizes.finished,
        "filled_in_seconds": filled,
        "measured": settled,
        "pages": [asdict(page) for page in pages],
        "viewers": seen,
        "met": all(page.met for page in pages),
    }


async def _pages(place: Place, known: Known, options: argparse.Namespace, progress: Progress) -> list[Figure]:
    with Standfast(url=place.url) as app:
        dashboard = Dashboard(app, auth=_somebody)
        fingerprint = await _a_fingerprint(dashboard)
        paths = options.page or list(_paths(known, fingerprint))
        bar = progress.add_task("pages", total=len(paths))
        figures = []
        for path in paths:
            figures.append(await _figure(dashboard, path, options.rounds))
            progress.advance(bar)
        await app.aclose()
    return figures


async def _somebody(_request: object) -> User:
    return User("ada", Role.ADMIN)


async def _a_fingerprint(dashboard: Dashboard) -> str:
    desk = dashboard._admin.desk(User("ada", Role.ADMIN))  # noqa: SLF001 - nobody else needs one
    groups = (await desk.read(group_dead, asked_by_fields(group_dead.asked, []))).groups
    return groups[-1].fingerprint if groups else "none"


async def _figure(dashboard: Dashboard, path: str, rounds: int) -> Figure:
    await answered(dashboard, path)
    times, cpus, size = [], [], 0
    for _ in range(rounds):
        dashboard._admin.shared.forget()  # noqa: SLF001 - each request pays for all of its reads
        began, cpu = time.perf_counter(), time.process_time()
        size = len(await answered(dashboard, path))
        times.append((time.perf_counter() - began) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
    return Figure(path, median(times), max(times), min(cpus), size, median(times) <= AIM)


async def answered(dashboard: Dashboard, address: str) -> bytes:
    """Return what the dashboard answers to a request."""
    parts = urlsplit(address)
    scope = scope_of(parts.path, parts.query)
    said: list[Mapping[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, object]) -> None:
        said.append(message)

    await dashboard.asgi(scope, receive, send)
    body = b"".join(bytes(each.get("body", b"")) for each in said[1:])  # type: ignore[call-overload]
    if said[0]["status"] != OK:
        sys.exit(f"bench: {address} was answered by {said[0]['status']}: {body[:500]!r}")
    return body


def _paths(known: Known, fingerprint: str) -> Iterator[str]:
    """Yield every page and every read of the API, that of jobs with each filter."""
    filters = (
        "state=completed",
        "state=dead",
        "state=running&state=ready",
        f"task={COMMON}",
        f"task={RARE}",
        "task=unheard_of",
        "queue=mail",
        "queue=books",
        "queue=mail&state=dead",
        "tag=vip",
        "tag=customer:7",
        "tag=unheard_of",
        f"key={quote(known.key)}",
        "schedule=nightly-0",
        "since=1h",
        "until=20d",
        "since=20d&until=19d",
        f"until=20d&task={RARE}",
        "error=mailbox",
        "error=unheard_of",
        f"fingerprint={fingerprint}",
        "text=ada7@",
        "text=unheard_of",
        "text=unheard_of&state=completed",
        f"worker={known.worker}",
        f"before={known.deep}",
        f"before={known.deep}&task={RARE}",
        "limit=200",
    )
    yield from ("/", "/?span=24h", "/?span=7d", "/?span=30d", "/jobs")
    yield from (f"/jobs?{each}" for each in filters)
    yield from (
        f"/jobs/{known.dead}",
        f"/jobs/{known.running}",
        f"/jobs/{known.deep}",
        f"/jobs/{known.running[-12:]}",
    )
    counted = ("action=retry&state=dead", f"action=retry&task={COMMON}", "action=cancel&queue=mail")
    yield from (f"/jobs/bulk?{each}" for each in counted)
    yield f"/jobs/bulk?action=retry&fingerprint={fingerprint}"
    yield from (
        "/dead",
        "/dead?queue=mail",
        "/queues",
        "/queues/mail",
        "/schedules",
        f"/schedules/{known.schedule}",
    )
    yield from ("/workers", f"/workers/{known.worker}", "/tasks", f"/tasks/{COMMON}", "/locks", "/incidents")
    yield from (f"/incidents/{known.incident}", "/audit", "/audit?who=nobody", "/settings")
    api = (
        "overview",
        "figures",
        "figures?span=30d",
        "jobs",
        "jobs/count",
        f"jobs/count?task={COMMON}",
        "dead",
        "queues",
    )
    yield from (f"/api/v1/{each}" for each in api)
    yield from (
        f"/api/v1/{each}" for each in ("schedules", "workers", "locks", "incidents", "audit", "settings", "tasks")
    )
    yield from (
        f"/api/v1/jobs/{known.dead}",
        "/api/v1/jobs/export?limit=1000",
        "/api/v1/jobs/export?limit=1000&format=csv",
    )


def _show(report: Mapping[str, dict[str, object]]) -> None:
    console = Console()
    for store, told in report.items():
        table = Table(
            f"{store}, {told['jobs']:,} finished jobs, {told['measured']}",
            "median ms",
            "highest",
            "least CPU",
            "KiB",
            "",
        )
        for page in told["pages"]:
            met = "" if page["met"] else "over"
            numbers = (
                *(f"{page[name]:.1f}" for name in ("median", "highest", "cpu")),
                f"{page['size'] / 1024:.0f}",
            )
            table.add_row(page["path"], *numbers, met)
        console.print(table)
        seen = told["viewers"]
        if seen:
            console.print(f"{store}: {seen}")
            console.print(f"aim: at most {VIEWERS_AIM} % of the store's time")


if __name__ == "__main__":
    main()
