"""`standfast queues`: what is in each queue, when it is closed and who serves it; pausing and resuming one."""

import shlex
from collections.abc import Iterator

import click
from rich.text import Text

from standfast.admin.fields import Named, QueueNamed
from standfast.admin.queues import QueueSeen, list_queues, pause_queue, resume_queue, show_queue
from standfast.cli.columns import queue_columns
from standfast.cli.connection import StoreOptions, examples, store_options
from standfast.cli.output import say, say_fields, say_json, say_table
from standfast.model.display import counted, dated, one_line


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


@queues.command("list", epilog=examples("standfast queues list", "standfast queues list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List every queue with its jobs.

    Those that a worker or an app names are there too, also when they are empty.
    """
    seen = wanted.run(list_queues)
    if wanted.as_json:
        say_json(seen.queues)
    elif not seen.queues:
        say("No queue holds a job, and none is paused.")
    else:
        say_table(seen.queues, queue_columns(seen.queues, seen.now))


@queues.command(epilog=examples("standfast queues show mail", "standfast queues show mail --json"))
@click.argument("name")
@store_options
def show(wanted: StoreOptions, name: str) -> None:
    """Show what is in a queue, when it is closed and who serves it."""
    seen = wanted.run(show_queue, Named(name=name))
    if wanted.as_json:
        say_json(seen)
    else:
        say(Text(one_line(name), style="bold"))
        say_fields(dict(_told(seen)))


def _told(seen: QueueSeen) -> Iterator[tuple[str, str | Text]]:
    yield "jobs", ", ".join(f"{count:,} {state}" for state, count in seen.states.items() if count) or "none"
    yield "workers", f"{counted(seen.workers, 'live one serves', 'live ones serve')} it"
    if seen.paused_at is not None:
        yield "paused", Text(f"since {dated(seen.paused_at, seen.now)}", style="yellow")
    if seen.closed is not None:
        yield "closed", Text(f"until {seen.closed}", style="yellow")
    if seen.windows:
        yield "windows", "; ".join(map(str, seen.windows))
    if seen.closes_at is not None and seen.opens_at is not None and seen.closed is None:
        yield "closes", f"{dated(seen.closes_at, seen.now)}, until {dated(seen.opens_at, seen.now)}"


@queues.command(epilog=examples("standfast queues pause mail"))
@click.argument("name")
@store_options
def pause(wanted: StoreOptions, name: str) -> None:
    """Let no more jobs of a queue start.

    Running ones go on; the others wait until the queue is resumed.
    """
    done = wanted.run(pause_queue, QueueNamed(name=name))
    if wanted.as_json:
        say_json(done)
    else:
        undo = f"standfast queues resume {shlex.quote(one_line(name))}"
        say(f"Queue '{one_line(name)}' is paused; running jobs go on. `{undo}` undoes it.")
        if not done.jobs:
            nobody = "" if done.workers else ", and no running worker serves it"
            say(f"It holds no job{nobody}: `standfast queues` lists those that do.")


@queues.command(epilog=examples("standfast queues resume mail"))
@click.argument("name")
@store_options
def resume(wanted: StoreOptions, name: str) -> None:
    """Let a paused queue go on."""
    done = wanted.run(resume_queue, QueueNamed(name=name))
    if wanted.as_json:
        say_json(done)
    else:
        say(f"Queue '{one_line(name)}' goes on.")
