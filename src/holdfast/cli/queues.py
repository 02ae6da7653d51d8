"""`holdfast queues`: what is in each queue; pausing and resuming them."""

import shlex
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.helptext import examples
from holdfast.cli.output import STYLES, Column, cut, number, say, say_json, say_table
from holdfast.cli.queues_show import show
from holdfast.cli.windows import find_windows
from holdfast.clock import SystemClock
from holdfast.core.states import State
from holdfast.store.backend import Backend
from holdfast.store.protocol import Queue
from holdfast.watch.closed import Windows, queue_closed
from holdfast.words import dated, one_line, relative

_ALWAYS = (State.READY, State.SCHEDULED, State.BLOCKED, State.HELD, State.RUNNING, State.DEAD)
_ON_WIDE_TERMINALS = (State.COMPLETED, State.CANCELLED)
_VITAL = (State.READY, State.RUNNING, State.DEAD)
_WIDE = 100


@click.group(
    invoke_without_command=True,
    epilog=examples("holdfast queues", "holdfast queues --json", "holdfast queues pause mail"),
)
@click.pass_context
@about_a_store
def queues(wanted: Wanted, ctx: click.Context) -> None:
    """List queues, pause and resume them."""
    if ctx.invoked_subcommand is None:
        _list_queues(wanted)


queues.add_command(show)


@queues.command("list", epilog=examples("holdfast queues list", "holdfast queues list --json"))
@about_a_store
def list_command(wanted: Wanted) -> None:
    """List every queue that holds jobs or is paused."""
    _list_queues(wanted)


def _list_queues(wanted: Wanted) -> None:
    with wanted.store() as backend:
        found, windows = backend.run(backend.verbs.queues()), find_windows(backend)
    now = SystemClock().now()
    if wanted.as_json:
        say_json(queue_fields(found, windows, now))
    elif not found:
        say("No queue holds a job, and none is paused.")
    else:
        say_table(found, queue_columns(found, windows, now))


def queue_fields(found: Iterable[Queue], windows: Windows, now: datetime) -> list[dict[str, Any]]:
    """Return queues ready for JSON, every state with its count."""
    return [
        {
            "name": queue.name,
            "paused_at": queue.paused_at,
            "closed_until": closed.closing.end if (closed := queue_closed(windows, queue.name, now)) else None,
            "states": {state.value: queue.states.get(state, 0) for state in State},
        }
        for queue in found
    ]


def queue_columns(found: Iterable[Queue], windows: Windows, now: datetime) -> list[Column[Queue]]:
    """Return the columns of a list of queues; whether one is closed is a column only if one is."""
    closed = {queue.name: words.until(now) for queue in found if (words := queue_closed(windows, queue.name, now))}
    until: Column[Queue] = Column(
        "CLOSED UNTIL", lambda queue: Text(closed.get(queue.name, ""), style="yellow"), shrinks=True, vital=2
    )
    counts = [_count_column(state) for state in _ALWAYS]
    counts += [_count_column(state, from_width=_WIDE) for state in _ON_WIDE_TERMINALS]
    return [
        Column("QUEUE", lambda queue: cut(queue.name)),
        *counts,
        Column("PAUSED", lambda queue: _paused(queue, relative, now), below_width=_WIDE, vital=2),
        Column("PAUSED", lambda queue: _paused(queue, dated, now), from_width=_WIDE, vital=2),
        *([until] if closed else []),
    ]


def _count_column(state: State, from_width: int = 0) -> Column[Queue]:
    return Column(
        state.value.upper(),
        lambda queue: number(queue.states.get(state, 0), STYLES[state]),
        from_width=from_width,
        vital=int(state in _VITAL),
        justify="right",
    )


def _paused(queue: Queue, told: Callable[[datetime, datetime], str], now: datetime) -> Text:
    return Text(told(queue.paused_at, now) if queue.paused_at else "", style="yellow")


@queues.command(epilog=examples("holdfast queues pause mail"))
@click.argument("name")
@about_a_store
def pause(wanted: Wanted, name: str) -> None:
    """Let no more jobs of a queue start.

    Running ones go on; the others wait until the queue is resumed.
    """
    with wanted.store() as backend:
        holds, served = _holds_jobs(backend, name), _is_served(backend, name)
        backend.run(backend.verbs.pause(name))
    if wanted.as_json:
        say_json({"queue": name, "paused": True, "holds_jobs": holds, "served": served})
    else:
        undo = f"holdfast queues resume {shlex.quote(one_line(name))}"
        say(f"Queue '{one_line(name)}' is paused; running jobs go on. `{undo}` undoes it.")
        if not holds:
            nobody = "" if served else ", and no running worker serves it"
            say(f"It holds no job{nobody}: `holdfast queues` lists those that do.")


def _holds_jobs(backend: Backend, name: str) -> bool:
    return any(queue.name == name and any(queue.states.values()) for queue in backend.run(backend.verbs.queues()))


def _is_served(backend: Backend, name: str) -> bool:
    return any(worker.is_live and worker.serves(name) for worker in backend.run(backend.verbs.workers()))


@queues.command(epilog=examples("holdfast queues resume mail"))
@click.argument("name")
@about_a_store
def resume(wanted: Wanted, name: str) -> None:
    """Let a paused queue go on."""
    with wanted.store() as backend:
        backend.run(backend.verbs.resume(name))
    if wanted.as_json:
        say_json({"queue": name, "paused": False})
    else:
        say(f"Queue '{one_line(name)}' goes on.")
