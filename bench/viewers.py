"""People who watch the dashboard while a worker drains jobs: what their looks add to the work of the store.

Every call of the store is written down (`game.counted`): those of the worker, and of the dashboard,
which is in this process. Who enqueues is not counted, so that the share of the dashboard looks larger than it is.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from fed import fed
from game import counted
from game.counted.journal import Call, read_calls
from places import HERE, Place
from standfast import Standfast
from standfast.admin.operation import Role, User
from standfast.dashboard import Dashboard

AIM = 2.0
"""Per cent of the store's time that viewers may add, at most."""

PAGES = ("/", "/jobs", "/workers")
"""What they watch, in turn."""

AT_WORK = 10
"""After so many batches of jobs the worker is at work."""

WARM_UP = 5.0
"""So many seconds viewers are there before anything counts: a server plans a statement once for each connection."""

PATIENCE = 120.0

_WORKER = [sys.executable, "-c", "from standfast.cli.main import main; main()", "worker", "ours_app:app"]


def watched(place: Place, viewers: int, seconds: float) -> dict[str, float]:
    """Return what a worker and so many viewers asked of the store meanwhile, and how much the viewers added."""
    journal = place.folder / "calls"
    url = f"counted+{place.url}#calls={journal}"
    with fed(place.url), _working(place, url):
        _wait_for_work(journal)
        frames, began, ended = asyncio.run(_watch(url, viewers, seconds))
    calls = [call for call in read_calls(journal) if began <= call.at <= ended]
    added = [call for call in calls if call.pid == os.getpid()]
    base = [call for call in calls if call.pid != os.getpid()]
    return {
        "viewers": viewers,
        "seconds": ended - began,
        "frames": frames,
        "worker_calls": len(base),
        "worker_busy": _busy(base),
        "viewers_calls": len(added),
        "viewers_busy": _busy(added),
        "added_calls_percent": 100 * len(added) / max(1, len(base)),
        "added_time_percent": 100 * _busy(added) / max(1e-9, _busy(base)),
    }


def _wait_for_work(journal: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while not journal.exists() or sum(call.verb == "finish" for call in read_calls(journal)) < AT_WORK:
        if time.monotonic() > give_up_at:
            sys.exit("bench: the worker does not work")
        time.sleep(0.2)


def _busy(calls: list[Call]) -> float:
    return sum(call.took or 0.0 for call in calls)


async def _watch(url: str, viewers: int, seconds: float) -> tuple[int, float, float]:
    """Let people watch; return how often pages were sent, and the time that counts."""
    with Standfast(url=url) as app:
        dashboard = Dashboard(app, auth=_somebody)
        began = time.time() + min(WARM_UP, seconds)
        seats = [
            asyncio.ensure_future(_seat(dashboard, PAGES[each % len(PAGES)], began, seconds))
            for each in range(viewers)
        ]
        frames = sum(await asyncio.gather(*seats))
        await app.aclose()
    return frames, began, began + seconds


async def _somebody(_request: object) -> User:
    return User("ada", Role.ADMIN)


async def _seat(dashboard: Dashboard, page: str, began: float, seconds: float) -> int:
    """Watch a page until so many seconds after it began to count; return how often it was sent since then."""
    frames = 0

    async def receive() -> dict[str, object]:
        await asyncio.sleep(began + seconds - time.time())
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, object]) -> None:
        nonlocal frames
        is_frame = bytes(message.get("body", b"")).startswith(b"event: frame")  # type: ignore[call-overload]
        frames += is_frame and time.time() >= began

    scope = scope_of("/live", f"at={quote(page)}") | {"asgi": {"version": "3.0", "spec_version": "2.3"}}
    await dashboard.asgi(scope, receive, send)  # by a later one, only `send` could tell that they have gone
    return frames


def scope_of(path: str, query: str) -> dict[str, object]:
    """Return a request as ASGI has it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 4242),
        "server": ("localhost", 80),
    }


@contextmanager
def _working(place: Place, url: str) -> Iterator[None]:
    paths = os.pathsep.join([str(HERE / "contenders"), counted.environment()["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": paths, "STANDFAST_URL": url, "BENCH_FOLDER": str(place.folder)}
    with (place.folder / "log").open("wb") as log:
        worker = subprocess.Popen(_WORKER, cwd=place.folder, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(60)
