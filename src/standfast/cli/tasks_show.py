"""`standfast tasks show`: one task with its parameters and its policy, as its app has published it."""

from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from rich.text import Text

from standfast.catalogue.book import read_catalogue
from standfast.catalogue.entry import Bound, KnownEntry, Parameter, TaskEntry
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say, say_fields, say_heading, say_json, say_table
from standfast.clock import SystemClock
from standfast.errors import TaskNotFoundError
from standfast.spelling import hint
from standfast.store.errand import run_errand
from standfast.words import dated, in_bytes, one_line, span


@click.command(epilog=examples("standfast tasks show send_mail", "standfast tasks show send_mail --json"))
@click.argument("name")
@about_a_store
def show(wanted: Wanted, name: str) -> None:
    """Show a task: what it takes, and how its jobs are run."""
    with wanted.store() as backend:
        view = run_errand(backend.run, read_catalogue(backend.verbs))
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
        say_table(known.task.parameters, _COLUMNS)


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


_COLUMNS: list[Column[Parameter]] = [
    Column("NAME", lambda each: cut(each.name)),
    Column("TYPE", lambda each: cut(each.type), shrinks=True),
    Column("DEFAULT", lambda each: cut(_default(each)), shrinks=True),
    Column("", lambda each: ", ".join(["required"] * each.required + ["secret"] * each.secret)),
]
