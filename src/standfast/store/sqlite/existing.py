"""Looking must not make: a file that is not there yet is refused, where a worker or an app would create it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from standfast.errors import StoreUnavailableError
from standfast.store.sqlite.connect import Files
from standfast.store.sqlite.sql_files import load_statements
from standfast.store.sqlite.translate import translated
from standfast.store.sqlite.walfiles import refuse_foreign_logs

_REMEDY = "(it is made when a job is first enqueued or a worker starts)"


def refuse_missing_tables(path: str, namespace: str | None) -> None:
    """Raise StoreUnavailableError unless the tables are there; whether they can be used is found out by opening."""
    file = _existing_file(Path(path).absolute())
    refuse_foreign_logs(Files.of(path))
    # Not `mode=ro`: the last reader of a write-ahead log may not tidy up behind itself then.
    address = f"file:{quote(bytes(file))}?mode=rw"
    with translated(file), closing(sqlite3.connect(address, uri=True)) as connection:
        [(there,)] = connection.execute(load_statements(namespace)["schema_table"])
    if not there:
        which = f" in namespace '{namespace}'" if namespace else ""
        raise StoreUnavailableError(
            f"{file} holds no jobs of Standfast{which}; give the right store with --url and --namespace {_REMEDY}"
        )


def _existing_file(file: Path) -> Path:
    try:
        there = file.is_file()
    except OSError as error:
        raise StoreUnavailableError(f"the database cannot be looked at: {error}") from error
    if not there:
        raise StoreUnavailableError(
            f"there is no database {file}; give the right one with --url or STANDFAST_URL {_REMEDY}"
        )
    return file
