"""`standfast incidents export`: incidents as files, to be sent to somebody or looked at elsewhere."""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from standfast.cli.casebook import find_incident, read_casebook
from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.options import examples, yes_option
from standfast.cli.output import say, say_json
from standfast.core.incident import Incident
from standfast.incidents.book import read_evidence
from standfast.incidents.files import files_of
from standfast.incidents.trimming import fit_name
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.words import counted

_ARCHIVE = ".zip"


@click.command(
    epilog=examples(
        "standfast incidents export 3c2d1e0f --to incident.zip",
        "standfast incidents export --all --to /var/tmp/incidents",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="All incidents.")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE.zip|FOLDER",
    type=click.Path(path_type=Path),
    help="Where to: an archive, or a folder that is made.",
)
@yes_option
@about_a_store
def export(wanted: Wanted, /, *, ids: tuple[str, ...], everything: bool, target: Path, yes: bool) -> None:
    """Write incidents with their evidence to an archive or a folder.

    Each has a folder there, with incident.json and a text for each part of the evidence: the same files as on the
    machine where it happened. What is there already is overwritten after asking.
    """
    if bool(ids) == everything:
        raise wrong_usage("give the ids of incidents, or --all, and not both")
    with wanted.store() as backend:
        kept = read_casebook(backend)
        chosen = kept if everything else [find_incident(wanted, backend, kept, each) for each in ids]
        overwritten = _existing(target, chosen)
        if overwritten and not yes:
            confirm(f"Overwrite {overwritten}?")
        write = _write_archive if target.suffix.lower() == _ARCHIVE else _write_folders
        write(backend, chosen, target)
    if wanted.as_json:
        say_json({"exported": [incident.id for incident in chosen], "to": str(target)})
    else:
        say(f"{counted(len(chosen), 'incident')} exported to {target}.")


def _existing(target: Path, chosen: Sequence[Incident]) -> str:
    """Return what would be overwritten, in words; nothing where nothing would."""
    if target.suffix.lower() == _ARCHIVE:
        if target.is_dir():
            raise wrong_usage(f"--to: {target} is a folder; name a file in it, or a folder whose name has no .zip")
        return str(target) if target.exists() else ""
    if target.exists() and not target.is_dir():
        raise wrong_usage(f"--to: {target} is a file; give a folder, or a name that ends in {_ARCHIVE}")
    there = [incident for incident in chosen if (target / fit_name(incident.id)).exists()]
    return f"{counted(len(there), 'incident')} in {target}" if there else ""


def _contents(backend: Backend, chosen: Sequence[Incident]) -> Iterator[tuple[str, str, bytes]]:
    """Yield each file: the folder it is in, its name, its content."""
    for incident in chosen:
        evidence = run_errand(backend.run, read_evidence(backend.verbs, incident.id))
        for name, content in files_of(incident, evidence).items():
            yield fit_name(incident.id), name, content


def _write_archive(backend: Backend, chosen: Sequence[Incident], target: Path) -> None:
    """Write an archive that nobody else may read, whole or not at all."""
    descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for folder, name, content in _contents(backend, chosen):
                archive.writestr(f"{folder}/{name}", content)
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _write_folders(backend: Backend, chosen: Sequence[Incident], target: Path) -> None:
    target.mkdir(mode=0o700, exist_ok=True)
    for incident in chosen:
        shutil.rmtree(target / fit_name(incident.id), ignore_errors=True)
    for folder, name, content in _contents(backend, chosen):
        place = target / folder
        place.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
