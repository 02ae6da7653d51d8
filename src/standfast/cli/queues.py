"""`standfast queues show`: what is in one queue, when it is closed, and who serves it."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from standfast.cli.columns import find_windows, queue_columns, queue_fields
from standfast.cli.connection import StoreOptions, examples, store_options
from standfast.cli.output import say, say_fields, say_json, say_table
from standfast.model.clock import SystemClock
from standfast.model.display import counted, dated, one_line
from standfast.model.states import State
from standfast.observe.obstacles import queue_closed
from standfast.schedules.closed_hours import About, ClosedHours, closing_from
from standfast.schedules.description import describe_window
from standfast.schedules.windows import Window
from standfast.stores.backend import Backend
from standfast.stores.values import Queue, Worker


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue, its windows and the live workers that serve it, at a time."""

    queue: Queue
    windows: tuple[ClosedHours, ...]
    workers: tuple[Worker, ...]
    now: datetime


def read_queue(backend: Backend, name: str) -> QueueLook:
    """Return all that there is to know about a queue; one that nobody has heard of is empty."""
    found = [queue for queue in backend.run(backend.verbs.queues()) if queue.name == name]
    windows = tuple(hours for hours in find_windows(backend) if (hours.about, hours.name) == (About.QUEUE, name))
    workers = backend.run(backend.verbs.workers())
    serving = tuple(worker for worker in workers if worker.is_live and worker.serves(name))
    return QueueLook(found[0] if found else Queue(name, None, {}), windows, serving, SystemClock().now())


@click.command(epilog=examples("standfast queues show mail", "standfast queues show mail --json"))
@click.argument("name")
@store_options
def show(wanted: StoreOptions, name: str) -> None:
    """Show what is in a queue, when it is closed and who serves it."""
    with wanted.store() as backend:
        look = read_queue(backend, name)
    if wanted.as_json:
        say_json(_fields(look))
    else:
        say(Text(one_line(name), style="bold"))
        say_fields(dict(_told(look)))


def _fields(look: QueueLook) -> dict[str, Any]:
    [fields] = queue_fields([look.queue], look.windows, look.now)
    windows = [window for hours in look.windows for window in hours.windows]
    return {**fields, "windows": windows, "workers": [worker.info.id for worker in look.workers]}


def _told(look: QueueLook) -> Iterator[tuple[str, str | Text]]:
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


# `standfast queues`: what is in each queue; pausing and resuming them.


@click.group(
    invoke_without_command=True,
    epilog=examples("standfast queues", "standfast queues --json", "standfast queues pause mail"),
)
@click.pass_context
@store_options
def queues(_wanted: StoreOptions, ctx: click.Context) -> None:
    """List queues, pause and resume them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


queues.add_command(show)


@queues.command("list", epilog=examples("standfast queues list", "standfast queues list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List every queue that holds jobs or is paused."""
    with wanted.store() as backend:
        found, windows = backend.run(backend.verbs.queues()), find_windows(backend)
    now = SystemClock().now()
    if wanted.as_json:
        say_json(queue_fields(found, windows, now))
    elif not found:
        say("No queue holds a job, and none is paused.")
    else:
        say_table(found, queue_columns(found, windows, now))


@queues.command(epilog=examples("standfast queues pause mail"))
@click.argument("name")
@store_options
def pause(wanted: StoreOptions, name: str) -> None:
    """Let no more jobs of a queue start.

    Running ones go on; the others wait until the queue is resumed.
    """
    with wanted.store() as backend:
        holds, served = _holds_jobs(backend, name), _is_served(backend, name)
        backend.run(backend.verbs.pause(name))
    if wanted.as_json:
        say_json({"queue": name, "paused": True, "holds_jobs": holds, "served": served})
    else:
        undo = f"standfast queues resume {shlex.quote(one_line(name))}"
        say(f"Queue '{one_line(name)}' is paused; running jobs go on. `{undo}` undoes it.")
        if not holds:
            nobody = "" if served else ", and no running worker serves it"
            say(f"It holds no job{nobody}: `standfast queues` lists those that do.")


def _holds_jobs(backend: Backend, name: str) -> bool:
    return any(queue.name == name and any(queue.states.values()) for queue in backend.run(backend.verbs.queues()))


def _is_served(backend: Backend, name: str) -> bool:
    return any(worker.is_live and worker.serves(name) for worker in backend.run(backend.verbs.workers()))


@queues.command(epilog=examples("standfast queues resume mail"))
@click.argument("name")
@store_options
def resume(wanted: StoreOptions, name: str) -> None:
    """Let a paused queue go on."""
    with wanted.store() as backend:
        backend.run(backend.verbs.resume(name))
    if wanted.as_json:
        say_json({"queue": name, "paused": False})
    else:
        say(f"Queue '{one_line(name)}' goes on.")
