"""`standfast queues show`: what is in one queue, when it is closed, and who serves it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_fields, say_json
from standfast.cli.queueview import queue_fields
from standfast.cli.windows import find_windows
from standfast.clock import SystemClock
from standfast.core.states import State
from standfast.schedule.closing import About, ClosedHours, closing_from
from standfast.schedule.window import Window
from standfast.schedule.words import describe_window
from standfast.store.backend import Backend
from standfast.store.protocol import Queue, Worker
from standfast.watch.closed import queue_closed
from standfast.words import counted, dated, one_line


@dataclass(frozen=True, slots=True)
class Look:
    """A queue, its windows and the live workers that serve it, at a time."""

    queue: Queue
    windows: tuple[ClosedHours, ...]
    workers: tuple[Worker, ...]
    now: datetime


def look_at(backend: Backend, name: str) -> Look:
    """Return all that there is to know about a queue; one that nobody has heard of is empty."""
    found = [queue for queue in backend.run(backend.verbs.queues()) if queue.name == name]
    windows = tuple(hours for hours in find_windows(backend) if (hours.about, hours.name) == (About.QUEUE, name))
    workers = backend.run(backend.verbs.workers())
    serving = tuple(worker for worker in workers if worker.is_live and worker.serves(name))
    return Look(found[0] if found else Queue(name, None, {}), windows, serving, SystemClock().now())


@click.command(epilog=examples("standfast queues show mail", "standfast queues show mail --json"))
@click.argument("name")
@about_a_store
def show(wanted: Wanted, name: str) -> None:
    """Show what is in a queue, when it is closed and who serves it."""
    with wanted.store() as backend:
        look = look_at(backend, name)
    if wanted.as_json:
        say_json(_fields(look))
    else:
        say(Text(one_line(name), style="bold"))
        say_fields(dict(_told(look)))


def _fields(look: Look) -> dict[str, Any]:
    [fields] = queue_fields([look.queue], look.windows, look.now)
    windows = [window for hours in look.windows for window in hours.windows]
    return {**fields, "windows": windows, "workers": [worker.info.id for worker in look.workers]}


def _told(look: Look) -> Iterator[tuple[str, str | Text]]:
    queue, now = look.queue, look.now
    counts = [f"{queue.states[state]:,} {state}" for state in State if queue.states.get(state)]
    yield "jobs", ", ".join(counts) or "none"
    yield "workers", f"{counted(len(look.workers), 'live one serves', 'live ones serve')} it"
    if queue.paused_at is not None:
        yield "paused", Text(f"since {dated(queue.paused_at, now)}", style="yellow")
    closed = queue_closed(look.windows, queue.name, now)
    if closed is not None:
        yield "closed", Text(f"until {closed.until(now)}", style="yellow")
    windows = [window for hours in look.windows for window in hours.windows]
    if windows:
        yield "windows", "; ".join(map(_window, windows))
    next_one = closing_from(windows, now)
    if next_one is not None and closed is None:
        yield "closes", f"{dated(next_one.begin, now)}, until {dated(next_one.end, now)}"


def _window(window: Window) -> str:
    words = str(describe_window(window))
    return f"{words} ({one_line(window.reason)})" if window.reason else words
