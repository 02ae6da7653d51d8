"""`standfast migrate`: bring the tables of a store to this release, or see first what that would do."""

from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import ExitCode, wrong_usage
from standfast.cli.options import examples
from standfast.cli.output import Column, say, say_json, say_table
from standfast.store.migrator import Migrator, Tables
from standfast.store.open import door_of, public_name
from standfast.words import counted


@click.command(
    epilog=examples(
        "standfast migrate --status",
        "standfast migrate --plan --url postgresql://app@db.example.com/shop | psql …",
        "standfast migrate --url postgresql://owner:secret@db.example.com/shop",
    )
)
@click.option("--plan", is_flag=True, help="Print the SQL that would be run, and run nothing.")
@click.option("--status", is_flag=True, help="Say how far the tables are, and run nothing.")
@click.pass_context
@about_a_store
def migrate(wanted: Wanted, ctx: click.Context, *, plan: bool, status: bool) -> None:
    """Make the tables of a store, or bring them to this release.

    Workers and clients do so by themselves where they may: this is for those whose users may not, or who want to
    see it first. It happens in one transaction and under a lock, so that two at once do no harm. Tables of a newer
    release stay as they are.
    """
    if plan and status:
        raise wrong_usage("--plan and --status are two questions: ask one")
    settings = wanted.settings
    migrator = door_of(settings.url).migrator(settings)
    name = public_name(settings.url)
    if migrator is None:
        _tell_of_no_tables(wanted, name)
    elif plan:
        _show_plan(wanted, name, migrator.look())
    elif status:
        ctx.exit(_show_status(wanted, name, migrator.look()))
    else:
        _apply(wanted, name, migrator)


def _tell_of_no_tables(wanted: Wanted, name: str) -> None:
    if wanted.as_json:
        say_json(_fields(name, ()))
    else:
        say(f"{name} has no tables: there is nothing to migrate.")


def _show_plan(wanted: Wanted, name: str, found: tuple[Tables, ...]) -> None:
    if wanted.as_json:
        say_json(_fields(name, found))
        return
    for tables in found:
        click.echo(f"-- {tables.name}: {_standing(tables)}")
        click.echo(tables.sql)


def _show_status(wanted: Wanted, name: str, found: tuple[Tables, ...]) -> ExitCode:
    if wanted.as_json:
        say_json(_fields(name, found))
    else:
        say_table(found, _COLUMNS)
    if not all(tables.usable for tables in found):
        return ExitCode.STORE
    return ExitCode.FAILED if any(tables.missing for tables in found) else ExitCode.OK


def _apply(wanted: Wanted, name: str, migrator: Migrator) -> None:
    before = migrator.look()
    migrator.apply()
    after = migrator.look()
    applied = sum(tables.missing for tables in before) - sum(tables.missing for tables in after)
    if wanted.as_json:
        say_json(_fields(name, after) | {"applied": applied})
    elif applied:
        say(f"{counted(applied, 'migration')} applied: {name} is ready for this release.")
    else:
        say(f"Nothing to do: {name} is ready for this release.")


def _fields(name: str, found: tuple[Tables, ...]) -> dict[str, Any]:
    return {
        "store": name,
        "tables": [
            {
                "name": tables.name,
                "version": tables.version,
                "known": tables.known,
                "missing": tables.missing,
                "usable": tables.usable,
                "sql": tables.sql or None,
            }
            for tables in found
        ],
    }


def _standing(tables: Tables) -> str:
    if not tables.usable:
        return "of a newer release: upgrade standfast"
    if tables.version > tables.known:
        return "of a newer release, which this one can work with"
    if not tables.missing:
        return "up to date"
    return f"{counted(tables.missing, 'migration')} to apply"


def _coloured(tables: Tables) -> Text:
    style = "bold red" if not tables.usable else "yellow" if tables.missing else "green"
    return Text(_standing(tables), style=style)


_COLUMNS: list[Column[Tables]] = [
    Column("TABLES", lambda tables: tables.name, shrinks=True),
    Column("VERSION", lambda tables: str(tables.version), justify="right"),
    Column("THIS RELEASE", lambda tables: str(tables.known), justify="right"),
    Column("", _coloured),
]
