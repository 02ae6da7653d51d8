"""`standfast tasks`: what tasks there are, as the workers of their apps have published them."""

from datetime import datetime, timedelta

import click
from rich.text import Text

from standfast.admin.fields import Named
from standfast.admin.tasks import ParameterSeen, TaskSeen, list_tasks, show_task
from standfast.cli.connection import ListGroup, StoreOptions, examples, store_options
from standfast.cli.output import Column, cut, say, say_fields, say_heading, say_json, say_list, say_table
from standfast.model.clock import SystemClock
from standfast.model.display import dated, in_bytes, one_line, span
from standfast.observe.obstacles import START_A_WORKER


@click.group(
    cls=ListGroup, epilog=examples("standfast tasks", "standfast tasks --json", "standfast tasks show send_mail")
)
@store_options
def tasks(_wanted: StoreOptions) -> None:
    """List tasks, look at one and its parameters."""


@tasks.command("list", epilog=examples("standfast tasks list", "standfast tasks list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List the tasks that workers have published, by name.

    Each worker publishes those of its app when it starts. What no worker publishes is forgotten after 30 days.
    """
    nothing = f"No worker has published a task; {START_A_WORKER}."
    say_list(wanted, wanted.run(list_tasks).tasks, _TASK_COLUMNS, nothing)


def _parameters(task: TaskSeen) -> str:
    return ", ".join(each.name if each.required else f"[{each.name}]" for each in task.parameters)


_TASK_COLUMNS: list[Column[TaskSeen]] = [
    Column("TASK", lambda task: cut(task.name), shrinks=True),
    Column("QUEUE", lambda task: cut(task.queue), shrinks=True),
    Column("PRIORITY", lambda task: str(task.priority), justify="right", from_width=90),
    Column("ATTEMPTS", lambda task: str(task.max_attempts), justify="right"),
    Column("PARAMETERS", lambda task: cut(_parameters(task)), shrinks=True),
    Column("WHAT IT DOES", lambda task: cut(task.about or ""), shrinks=True, from_width=100),
]


@tasks.command(epilog=examples("standfast tasks show send_mail", "standfast tasks show send_mail --json"))
@click.argument("name")
@store_options
def show(wanted: StoreOptions, name: str) -> None:
    """Show a task: what it takes, and how its jobs are run."""
    task = wanted.run(show_task, Named(name=name))
    if wanted.as_json:
        say_json(task)
        return
    say(Text(one_line(name), style="bold"))
    say_fields(_told(task, SystemClock().now()))
    if task.parameters:
        say_heading("Parameters")
        say_table(task.parameters, _PARAMETER_COLUMNS)


def _told(task: TaskSeen, now: datetime) -> dict[str, str | Text | None]:
    waits = f", after waits of {task.backoff}" if task.max_attempts > 1 else ""
    late, kept = task.start_within, task.keep_result
    release = f"{task.app}, release {task.release}"
    memory = "" if task.memory is None else f", {in_bytes(task.memory)} of memory at most"
    return {
        "does": task.about,
        "queue": f"{task.queue}, priority {task.priority}",
        "attempts": f"{task.max_attempts}{waits}",
        "retried": None if task.retry_on is None else f"after {', '.join(task.retry_on)} alone",
        "discarded": f"after {', '.join(task.discard_on)}" if task.discard_on else None,
        "timeout": None if task.timeout is None else _seconds(task.timeout),
        "late": None if late is None else f"after {_seconds(late)}: {task.on_late}",
        "result": None if kept is None else f"kept for {_seconds(kept)}",
        "isolation": None if task.isolation == "none" else f"{task.isolation}{memory}",
        "limits": "; ".join(map(str, task.limits)) or None,
        "gates": ", ".join(task.gates) or None,
        "closed": "; ".join(map(str, task.windows)) or None,
        "schedules": ", ".join(task.schedules) or None,
        "version": str(task.version),
        "app": release
        if task.current
        else Text(f"{one_line(release)}; the newest does not have it", style="yellow"),
        "published": dated(task.seen_at, now),
    }


def _seconds(number: float) -> str:
    return span(timedelta(seconds=number))


def _default(parameter: ParameterSeen) -> str:
    if parameter.required:
        return ""
    return "(not shown)" if parameter.default is None else parameter.default


_PARAMETER_COLUMNS: list[Column[ParameterSeen]] = [
    Column("NAME", lambda each: cut(each.name)),
    Column("TYPE", lambda each: cut(each.type or ""), shrinks=True),
    Column("DEFAULT", lambda each: cut(_default(each)), shrinks=True),
    Column("", lambda each: ", ".join(["required"] * each.required + ["secret"] * each.secret)),
]
