"""`standfast backup` and `standfast restore`: a SQLite store is copied, and taken back, while programs use it."""

from collections.abc import Mapping
from pathlib import Path

import click

from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples, yes_option
from standfast.cli.output import say, say_json
from standfast.cli.progress import span_progress
from standfast.core.states import State
from standfast.store.open import copies_of, public_name
from standfast.words import counted, in_bytes

_file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(
    epilog=examples(
        "standfast backup /backups/jobs-$(date +%F).db",
        "standfast backup copy.db --url sqlite:////var/lib/shop/standfast.db --json",
    )
)
@_file_argument
@about_a_store
def backup(wanted: Wanted, file: Path) -> None:
    """Copy a SQLite store into a new FILE, while workers run.

    The copy has all that is in the file at one moment: jobs of all namespaces, schedules, and your own tables. It
    gets its name when it is complete. An existing FILE is not overwritten. PostgreSQL and Redis have tools of their
    own for that.
    """
    settings = wanted.settings
    copies = copies_of(settings)
    with span_progress() as show:
        counts = copies.backup(file, lambda done, total: show("backup", "", done, total))
    if wanted.as_json:
        fields = {"store": public_name(settings.url), "file": str(file), "bytes": file.stat().st_size}
        say_json({**fields, "jobs": counts})
    else:
        say(f"{file} has a copy of {wanted.place}: {_in_words(counts)}, {in_bytes(file.stat().st_size)}.")


@click.command(
    epilog=examples(
        "standfast restore /backups/jobs-2026-11-19.db",
        "standfast restore copy.db --url sqlite:////var/lib/shop/standfast.db --yes",
    )
)
@_file_argument
@yes_option
@about_a_store
def restore(wanted: Wanted, file: Path, *, yes: bool) -> None:
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
    if wanted.as_json:
        fields = {"store": public_name(settings.url), "file": str(file)}
        say_json({**fields, "replaced": replaced, "restored": restored})
    else:
        say(f"{wanted.place} had {_in_words(replaced)}, and has those of {file} now: {_in_words(restored)}.")


def _in_words(counts: Mapping[State, int]) -> str:
    """Return how many jobs there are in each state: 3 running and 12 ready jobs."""
    if not counts:
        return "no jobs"
    *some, last = [f"{number:,} {state.value}" for state, number in counts.items()]
    return f"{', '.join(some)}{' and ' if some else ''}{last} {counted(sum(counts.values()), 'job').split(' ')[1]}"
