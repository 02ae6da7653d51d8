"""`holdfast restore`: take a backup back into a SQLite store while programs use it."""

from pathlib import Path

import click

from holdfast.cli.backup import file_argument, jobs_in_words
from holdfast.cli.confirming import confirm
from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.options import examples, yes_option
from holdfast.cli.output import say, say_json
from holdfast.cli.progress import span_progress
from holdfast.store.open import copies_of, public_name


@click.command(
    epilog=examples(
        "holdfast restore /backups/jobs-2026-11-19.db",
        "holdfast restore copy.db --url sqlite:////var/lib/shop/holdfast.db --yes",
    )
)
@file_argument
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
        confirm(
            f"Replace all that is in {wanted.place} ({jobs_in_words(replaced)}) by {file}"
            f" ({jobs_in_words(restored)})?"
        )
    with span_progress() as show:
        copies.restore(file, lambda done, total: show("restore", "", done, total))
    if wanted.as_json:
        fields = {"store": public_name(settings.url), "file": str(file)}
        say_json({**fields, "replaced": replaced, "restored": restored})
    else:
        say(
            f"{wanted.place} had {jobs_in_words(replaced)}, and has those of {file} now: {jobs_in_words(restored)}."
        )
