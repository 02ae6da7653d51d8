"""`standfast tasks`: what tasks there are, as the workers of their apps have published them."""

import click

from standfast.catalogue.book import read_catalogue
from standfast.catalogue.entry import CatalogueView, KnownEntry
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.cli.tasks_show import show, task_fields
from standfast.store.errand import run_errand
from standfast.watch.obstacle import START_A_WORKER


@click.group(
    invoke_without_command=True,
    epilog=examples("standfast tasks", "standfast tasks --json", "standfast tasks show send_mail"),
)
@click.pass_context
@about_a_store
def tasks(_wanted: Wanted, ctx: click.Context) -> None:
    """List tasks, look at one and its parameters."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


tasks.add_command(show)


@tasks.command("list", epilog=examples("standfast tasks list", "standfast tasks list --json"))
@about_a_store
def list_command(wanted: Wanted) -> None:
    """List the tasks that workers have published, by name.

    Each worker publishes those of its app when it starts. What no worker publishes is forgotten after 30 days.
    """
    with wanted.store() as backend:
        view: CatalogueView = run_errand(backend.run, read_catalogue(backend.verbs))
    if wanted.as_json:
        say_json([task_fields(known) for known in view.tasks])
    elif not view.tasks:
        say(f"No worker has published a task; {START_A_WORKER}.")
    else:
        say_table(view.tasks, _COLUMNS)


def _parameters(known: KnownEntry) -> str:
    return ", ".join(each.name if each.required else f"[{each.name}]" for each in known.task.parameters)


_COLUMNS: list[Column[KnownEntry]] = [
    Column("TASK", lambda known: cut(known.task.name), shrinks=True),
    Column("QUEUE", lambda known: cut(known.task.queue), shrinks=True),
    Column("PRIORITY", lambda known: str(known.task.priority), justify="right", from_width=90),
    Column("ATTEMPTS", lambda known: str(known.task.max_attempts), justify="right"),
    Column("PARAMETERS", lambda known: cut(_parameters(known)), shrinks=True),
    Column("WHAT IT DOES", lambda known: cut(known.task.doc), shrinks=True, from_width=100),
]
