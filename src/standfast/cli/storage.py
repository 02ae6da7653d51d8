"""`standfast migrate`, `backup` and `restore`.

`standfast migrate`: bring the tables of a store to this release, or see first what that would do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import StoreOptions, examples, store_options, yes_option
from standfast.cli.exit_codes import ExitCode, wrong_usage
from standfast.cli.inputs import confirm
from standfast.cli.output import Column, answer, say_json, say_table, span_progress
from standfast.model.display import counted, in_bytes
from standfast.model.states import State
from standfast.stores.url import Migrator, Tables, copies_of, public_name, store_kind


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
@store_options
def migrate(wanted: StoreOptions, ctx: click.Context, *, plan: bool, status: bool) -> None:
    """Make the tables of a store, or bring them to this release.

    Workers and clients do so by themselves where they may: this is for those whose users may not, or who want to
    see it first. It happens in one transaction and under a lock, so that two at once do no harm. Tables of a newer
    release stay as they are.
    """
    if plan and status:
        raise wrong_usage("--plan and --status are two questions: ask one")
    settings = wanted.settings
    migrator = store_kind(settings.url).migrator(settings)
    name = public_name(settings.url)
    if migrator is None:
        answer(wanted, _fields(name, ()), f"{name} has no tables: there is nothing to migrate.")
    elif plan:
        _show_plan(wanted, name, migrator.look())
    elif status:
        ctx.exit(_show_status(wanted, name, migrator.look()))
    else:
        _apply(wanted, name, migrator)


def _show_plan(wanted: StoreOptions, name: str, found: tuple[Tables, ...]) -> None:
    if wanted.as_json:
        say_json(_fields(name, found))
        return
    for tables in found:
        click.echo(f"-- {tables.name}: {_standing(tables)}")
        click.echo(tables.sql)


def _show_status(wanted: StoreOptions, name: str, found: tuple[Tables, ...]) -> ExitCode:
    if wanted.as_json:
        say_json(_fields(name, found))
    else:
        say_table(found, _COLUMNS)
    if not all(tables.usable for tables in found):
        return ExitCode.STORE
    return ExitCode.FAILED if any(tables.missing for tables in found) else ExitCode.OK


def _apply(wanted: StoreOptions, name: str, migrator: Migrator) -> None:
    before = migrator.look()
    migrator.apply()
    after = migrator.look()
    applied = sum(tables.missing for tables in before) - sum(tables.missing for tables in after)
    done = f"{counted(applied, 'migration')} applied" if applied else "Nothing to do"
    answer(wanted, _fields(name, after) | {"applied": applied}, f"{done}: {name} is ready for this release.")


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


# `standfast backup` and `standfast restore`: a SQLite store is copied, and taken back, while programs use it.

_file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(
    epilog=examples(
        "standfast backup /backups/jobs-$(date +%F).db",
        "standfast backup copy.db --url sqlite:////var/lib/shop/standfast.db --json",
    )
)
@_file_argument
@store_options
def backup(wanted: StoreOptions, file: Path) -> None:
    """Copy a SQLite store into a new FILE, while workers run.

    The copy has all that is in the file at one moment: jobs of all namespaces, schedules, and your own tables. It
    gets its name when it is complete. An existing FILE is not overwritten. PostgreSQL and Redis have tools of their
    own for that.
    """
    settings = wanted.settings
    copies = copies_of(settings)
    with span_progress() as show:
        counts = copies.backup(file, lambda done, total: show("backup", "", done, total))
    size = file.stat().st_size
    answer(
        wanted,
        {"store": public_name(settings.url), "file": str(file), "bytes": size, "jobs": counts},
        f"{file} has a copy of {wanted.place}: {_in_words(counts)}, {in_bytes(size)}.",
    )


@click.command(
    epilog=examples(
        "standfast restore /backups/jobs-2026-11-19.db",
        "standfast restore copy.db --url sqlite:////var/lib/shop/standfast.db --yes",
    )
)
@_file_argument
@yes_option
@store_options
def restore(wanted: StoreOptions, file: Path, *, yes: bool) -> None:
    """Replace all that is in a SQLite store by a backup, FILE.

    Workers and other programs may go on: each of them sees the backup from the next call on, and a worker that the
    backup does not know is replaced by its supervisor. What was stored since the backup was made is gone, your own
    tables in the file included. A store that is not there yet is made.
    """
    settings = wanted.settings
    copies = copies_of(settings)
    replaced, restored = copies.count(), copies.count(file)
    if not yes:
        confirm(f"Replace all that is in {wanted.place} ({_in_words(replaced)}) by {file} ({_in_words(restored)})?")
    with span_progress() as show:
        copies.restore(file, lambda done, total: show("restore", "", done, total))
    answer(
        wanted,
        {"store": public_name(settings.url), "file": str(file), "replaced": replaced, "restored": restored},
        f"{wanted.place} had {_in_words(replaced)}, and has those of {file} now: {_in_words(restored)}.",
    )


def _in_words(counts: Mapping[State, int]) -> str:
    """Return how many jobs there are in each state: 3 running and 12 ready jobs."""
    if not counts:
        return "no jobs"
    *some, last = [f"{number:,} {state.value}" for state, number in counts.items()]
    return f"{', '.join(some)}{' and ' if some else ''}{last} {counted(sum(counts.values()), 'job').split(' ')[1]}"
