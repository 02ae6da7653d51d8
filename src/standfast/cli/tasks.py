"""`standfast tasks show`: one task with its parameters and its policy, as its app has published it."""

from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from rich.text import Text

from standfast.cli.connection import ListGroup, StoreOptions, examples, store_options
from standfast.cli.output import Column, cut, say, say_fields, say_heading, say_json, say_table
from standfast.errors import TaskNotFoundError
from standfast.model.clock import SystemClock
from standfast.model.display import dated, in_bytes, one_line, span
from standfast.model.suggestions import hint
from standfast.observe.catalogue import Bound, CatalogueView, KnownEntry, Parameter, TaskEntry, read_catalogue
from standfast.observe.obstacles import START_A_WORKER
from standfast.stores.verb import run_procedure


@click.command(epilog=examples("standfast tasks show send_mail", "standfast tasks show send_mail --json"))
@click.argument("name")
@store_options
def show(wanted: StoreOptions, name: str) -> None:
    """Show a task: what it takes, and how its jobs are run."""
    with wanted.store() as backend:
        view = run_procedure(backend.run, read_catalogue(backend.verbs))
    known = view.task(name)
    if known is None:
        names = [each.task.name for each in view.tasks]
        raise TaskNotFoundError(
            f"no worker has published a task '{name}' in {wanted.place}: "
            + (hint(name, names) if names else "`standfast tasks` lists those that were")
        )
    if wanted.as_json:
        say_json(task_fields(known))
        return
    say(Text(one_line(name), style="bold"))
    say_fields(_told(known, SystemClock().now()))
    if known.task.parameters:
        say_heading("Parameters")
        say_table(known.task.parameters, _PARAMETER_COLUMNS)


def task_fields(known: KnownEntry) -> dict[str, Any]:
    """Return a task ready for JSON; spans are seconds, and a default is a text of JSON."""
    fields: dict[str, Any] = msgspec.structs.asdict(known.task)
    where = {name: getattr(known, name) for name in ("app", "release", "published_at", "current")}
    return fields | where


def _told(known: KnownEntry, now: datetime) -> dict[str, str | Text | None]:
    task = known.task
    waits = f", after waits of {task.backoff}" if task.max_attempts > 1 else ""
    late, kept = task.start_within, task.keep_result
    release = f"{known.app}, release {known.release}"
    return {
        "does": task.doc or None,
        "queue": f"{task.queue}, priority {task.priority}",
        "attempts": f"{task.max_attempts}{waits}",
        "retried": None if task.retry_on is None else f"after {', '.join(task.retry_on)} alone",
        "discarded": f"after {', '.join(task.discard_on)}" if task.discard_on else None,
        "timeout": None if task.timeout is None else _seconds(task.timeout),
        "late": None if late is None else f"after {_seconds(late)}: {task.on_late}",
        "result": None if kept is None else f"kept for {_seconds(kept)}",
        "isolation": _isolation(task),
        "at a time": None if task.limit is None else bound_words(task.limit),
        "gates": ", ".join(task.gates) or None,
        "closed": "; ".join(task.windows) or None,
        "schedules": ", ".join(task.schedules) or None,
        "version": str(task.version),
        "app": release
        if known.current
        else Text(f"{one_line(release)}; the newest does not have it", style="yellow"),
        "published": dated(known.published_at, now),
    }


def _isolation(task: TaskEntry) -> str | None:
    if task.isolation == "none":
        return None
    return task.isolation if task.memory is None else f"{task.isolation}, {in_bytes(task.memory)} of memory at most"


def bound_words(bound: Bound) -> str:
    """Return how many jobs run at a time in one process."""
    return "; ".join([*([] if bound.most is None else [str(bound.most)]), *bound.peaks])


def _seconds(number: float) -> str:
    return span(timedelta(seconds=number))


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return ""
    return "(not shown)" if parameter.default is None else parameter.default


_PARAMETER_COLUMNS: list[Column[Parameter]] = [
    Column("NAME", lambda each: cut(each.name)),
    Column("TYPE", lambda each: cut(each.type), shrinks=True),
    Column("DEFAULT", lambda each: cut(_default(each)), shrinks=True),
    Column("", lambda each: ", ".join(["required"] * each.required + ["secret"] * each.secret)),
]


# `standfast tasks`: what tasks there are, as the workers of their apps have published them.


@click.group(
    cls=ListGroup,
    epilog=examples("standfast tasks", "standfast tasks --json", "standfast tasks show send_mail"),
)
@store_options
def tasks(_wanted: StoreOptions) -> None:
    """List tasks, look at one and its parameters."""


tasks.add_command(show)


@tasks.command("list", epilog=examples("standfast tasks list", "standfast tasks list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List the tasks that workers have published, by name.

    Each worker publishes those of its app when it starts. What no worker publishes is forgotten after 30 days.
    """
    with wanted.store() as backend:
        view: CatalogueView = run_procedure(backend.run, read_catalogue(backend.verbs))
    if wanted.as_json:
        say_json([task_fields(known) for known in view.tasks])
    elif not view.tasks:
        say(f"No worker has published a task; {START_A_WORKER}.")
    else:
        say_table(view.tasks, _TASK_COLUMNS)


def _parameters(known: KnownEntry) -> str:
    return ", ".join(each.name if each.required else f"[{each.name}]" for each in known.task.parameters)


_TASK_COLUMNS: list[Column[KnownEntry]] = [
    Column("TASK", lambda known: cut(known.task.name), shrinks=True),
    Column("QUEUE", lambda known: cut(known.task.queue), shrinks=True),
    Column("PRIORITY", lambda known: str(known.task.priority), justify="right", from_width=90),
    Column("ATTEMPTS", lambda known: str(known.task.max_attempts), justify="right"),
    Column("PARAMETERS", lambda known: cut(_parameters(known)), shrinks=True),
    Column("WHAT IT DOES", lambda known: cut(known.task.doc), shrinks=True, from_width=100),
]
