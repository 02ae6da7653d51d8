"""`standfast queues`: what is in each queue; pausing and resuming them."""

import shlex

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json, say_table
from standfast.cli.queues_show import show
from standfast.cli.queueview import queue_columns, queue_fields
from standfast.cli.windows import find_windows
from standfast.clock import SystemClock
from standfast.store.backend import Backend
from standfast.words import one_line


@click.group(
    invoke_without_command=True,
    epilog=examples("standfast queues", "standfast queues --json", "standfast queues pause mail"),
)
@click.pass_context
@about_a_store
def queues(_wanted: Wanted, ctx: click.Context) -> None:
    """List queues, pause and resume them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


queues.add_command(show)


@queues.command("list", epilog=examples("standfast queues list", "standfast queues list --json"))
@about_a_store
def list_command(wanted: Wanted) -> None:
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
@about_a_store
def resume(wanted: Wanted, name: str) -> None:
    """Let a paused queue go on."""
    with wanted.store() as backend:
        backend.run(backend.verbs.resume(name))
    if wanted.as_json:
        say_json({"queue": name, "paused": False})
    else:
        say(f"Queue '{one_line(name)}' goes on.")
