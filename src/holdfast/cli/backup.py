"""`holdfast backup`: copy a SQLite store into a file while programs use it."""

from collections.abc import Mapping
from pathlib import Path

import click

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.options import examples
from holdfast.cli.output import say, say_json
from holdfast.cli.progress import span_progress
from holdfast.core.states import State
from holdfast.store.open import copies_of, public_name
from holdfast.words import counted, in_bytes

file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(
    epilog=examples(
        "holdfast backup /backups/jobs-$(date +%F).db",
        "holdfast backup copy.db --url sqlite:////var/lib/shop/holdfast.db --json",
    )
)
@file_argument
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
        say(f"{file} has a copy of {wanted.place}: {jobs_in_words(counts)}, {in_bytes(file.stat().st_size)}.")


def jobs_in_words(counts: Mapping[State, int]) -> str:
    """Return how many jobs there are in each state: 3 running and 12 ready jobs."""
    if not counts:
        return "no jobs"
    *some, last = [f"{number:,} {state.value}" for state, number in counts.items()]
    return f"{', '.join(some)}{' and ' if some else ''}{last} {counted(sum(counts.values()), 'job').split(' ')[1]}"
