"""`standfast jobs files`: the files that a job has saved, and a copy of one of them."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.lookup import find_job
from standfast.cli.options import examples
from standfast.cli.output import say, say_json, say_table
from standfast.cli.writtenview import file_columns, file_fields
from standfast.clock import SystemClock
from standfast.durable.files import Kept, files_among
from standfast.durable.shelf import Shelf
from standfast.errors import StandfastError, StoreError
from standfast.store.files import shelf_of
from standfast.words import in_bytes

_AT_ONCE = 1024 * 1024


@click.command(
    epilog=examples(
        "standfast jobs files 3c2d1e0f",
        "standfast jobs files 3c2d1e0f --json",
        "standfast jobs files 3c2d1e0f --get report.csv --to /var/tmp/report.csv",
    )
)
@click.argument("job_id", metavar="ID")
@click.option("--get", "name", metavar="NAME", help="Copy the file of this name.")
@click.option(
    "--to",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Where to: a file that is not there yet, or a folder.  [default: NAME, in the working directory]",
)
@about_a_store
def files(wanted: Wanted, /, *, job_id: str, name: str | None, target: Path | None) -> None:
    """List the files that a job has saved, or copy one.

    ID is a job's id, or its last characters as the worker shows them.

    The store knows their names, sizes and hashes. A copy needs the folder where they are: the one of the setting
    `files`, or that beside a SQLite database. It is checked against the hash.
    """
    if target is not None and name is None:
        raise wrong_usage("--to is for a copy: name the file, --get NAME")
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        memos = backend.run(backend.verbs.memos(job.id))
    kept = files_among(memos)
    if name is not None:
        copied = _copy(shelf_of(wanted.settings), _named(kept.get(name), name, job.id, list(kept)), target)
        _tell_copied(wanted, kept[name], copied)
    elif wanted.as_json:
        say_json([file_fields(each) for each in kept.values()])
    elif kept:
        say_table(list(kept.values()), file_columns(SystemClock().now()))
    else:
        say("The job has saved no file.")


def _named(kept: Kept | None, name: str, job_id: str, names: list[str]) -> Kept:
    if kept is None:
        there = f"it has {', '.join(names)}" if names else "it has saved none"
        raise StandfastError(f"job {job_id} has no file {name!r}: {there}")
    return kept


def _copy(shelf: Shelf, kept: Kept, target: Path | None) -> Path:
    """Copy a file, whole or not at all; return where it is."""
    source = shelf.find(kept).path
    target = Path(kept.name) if target is None else target / kept.name if target.is_dir() else target
    if target.exists():
        raise wrong_usage(f"--to: {target} is there already, and is not overwritten")
    unfinished = target.with_name(f".{target.name}.part")
    try:
        with source.open("rb") as there, _open_new(unfinished) as here:
            digest = hashlib.sha256()
            while chunk := there.read(_AT_ONCE):
                digest.update(chunk)
                here.write(chunk)
        if digest.hexdigest() != kept.sha256:
            raise StoreError(f"{source} is not what the job has saved: it was changed since, its hash is another")
        unfinished.replace(target)
    except FileNotFoundError as error:
        raise StoreError(
            f"there is no {error.filename}; if the files are kept elsewhere, say where: STANDFAST_FILES=FOLDER"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _tell_copied(wanted: Wanted, kept: Kept, target: Path) -> None:
    if wanted.as_json:
        say_json({**file_fields(kept), "to": str(target)})
    else:
        say(f"{kept.name} ({in_bytes(kept.size)}) copied to {target}.")


def _open_new(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
