"""The tables of SQLite brought to this release, and copies of the file.

Looking must not make: a file that is not there yet is refused, where a worker or an app would create it.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from standfast.errors import ConfigurationError, SchemaError, StoreError, StoreUnavailableError
from standfast.model.clock import Clock
from standfast.model.states import State
from standfast.stores.backend import identity_of
from standfast.stores.contract import count_states
from standfast.stores.sqlite.connect import (
    FORK_GUARD,
    Connection,
    Files,
    open_jobs,
    open_to_look,
    prepare,
    refuse_foreign_logs,
)
from standfast.stores.sqlite.engine import FairLock
from standfast.stores.sqlite.statements import (
    BUSY_TIMEOUT,
    load_migrations,
    load_statements,
    missing,
    run_steps,
    schema_version,
    translated,
)
from standfast.stores.sqlite.store import SqliteBackend, SqliteStore
from standfast.stores.url import Counts, Progress, Tables, sync_folder

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


# Brings the files of a SQLite store to this release when asked to, before anybody uses them.


class SqliteMigrator:
    """The two files of a store."""

    def __init__(self, path: str, namespace: str | None) -> None:
        self._files = Files.of(path)
        self._namespace = namespace

    def look(self) -> tuple[Tables, ...]:
        """Return the tables as they are, and change nothing."""
        refuse_foreign_logs(self._files)
        return self._look("jobs", self._files.jobs), self._look("beats", self._files.beats)

    def apply(self) -> None:
        """Apply what is missing to each file."""
        FORK_GUARD.run(lambda: prepare(self._files, self._namespace))

    def _look(self, kind: str, file: Path) -> Tables:
        version = self._version(file) if file.is_file() else 0
        migrations = load_migrations(kind, self._namespace)
        known = len(migrations)
        sql = self._sql(version, migrations) if version < known else ""
        return Tables(str(file), version, known, sql, usable=version <= known)

    def _version(self, file: Path) -> int:
        return FORK_GUARD.run(lambda: self._version_inside(file))

    def _version_inside(self, file: Path) -> int:
        with translated(file), closing(open_to_look(file)) as connection:
            return schema_version(connection, self._namespace)

    def _sql(self, version: int, migrations: tuple[tuple[str, ...], ...]) -> str:
        note = load_statements(self._namespace)["set_schema_version"].replace("?1", str(len(migrations)))
        statements = [statement for migration in migrations[version:] for statement in migration]
        return "\n\n".join(["BEGIN IMMEDIATE;", *statements, note, "COMMIT;"]) + "\n"


# Backups of a SQLite store, made and taken back while programs use it, by SQLite's own backup.
#
# backup:   the file as it is at one moment ─► a new file, complete and on the disk ─► its name
# restore:  a backup ─► one transaction on the file in use, which each process sees as any other commit

PAGES = 2000
"""Pages that are copied in one step; people are told how far it is after each."""


class SqliteCopies:
    """Makes and restores copies of one store. A copy has the whole file: all namespaces, and the user's tables."""

    def __init__(self, path: str, namespace: str | None, clock: Clock) -> None:
        self._files = Files.of(path)
        self._namespace = namespace
        self._clock = clock
        self._verbs = SqliteStore(clock, namespace)

    def count(self, copy: Path | None = None) -> Counts:
        """Return how many jobs the store has, none where it is not there, or a copy of it.

        Raises an error for what is no store, and no copy of one.
        """
        path = self._files.jobs if copy is None else copy
        if copy is None and path.exists():
            self._make_ready()
        elif copy is None:
            return {}
        elif not path.is_file():
            raise ConfigurationError(f"there is no file {path}")
        return FORK_GUARD.run(lambda: self._count(path))

    def backup(self, target: Path, progress: Progress) -> Counts:
        """Copy the store into a new file, as it is when this begins. Return what is in the copy."""
        if target.exists():
            raise ConfigurationError(
                f"{target} is there already, and a backup overwrites nothing: name another file"
            )
        if not target.parent.is_dir():
            raise ConfigurationError(f"there is no folder {target.parent}: make it, or name another file")
        self._make_ready()
        part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            FORK_GUARD.run(lambda: self._back_up(part, progress))
            part.chmod(self._files.jobs.stat().st_mode & 0o777)
            part.rename(target)
        finally:
            for end in ("", "-journal"):
                Path(f"{part}{end}").unlink(missing_ok=True)
        with suppress(OSError):  # not every system can
            sync_folder(target.parent)
        return self.count(target)

    def restore(self, copy: Path, progress: Progress) -> None:
        """Put the content of a copy in the place of all that is in the store."""
        if copy.exists() and self._files.jobs.exists() and copy.samefile(self._files.jobs):
            raise ConfigurationError(f"{copy} is the store itself: name a backup of it")
        self.count(copy)
        FORK_GUARD.run(lambda: self._restore(copy, progress))

    def _make_ready(self) -> None:
        """Migrate a store of an older release, and let it have an identity, which a backup takes along."""
        refuse_missing_tables(str(self._files.jobs), self._namespace)
        with closing(SqliteBackend(self._files.jobs, clock=self._clock, namespace=self._namespace)) as backend:
            identity_of(backend)

    def _count(self, path: Path) -> Counts:
        with translated(path), closing(open_to_look(path)) as connection:
            self._refuse_other_schemas(connection, path)
            connection.execute("BEGIN")
            counts: Mapping[State, int] = run_steps(connection, count_states(self._verbs).steps)
        return {state: number for state, number in counts.items() if number}

    def _back_up(self, part: Path, progress: Progress) -> None:
        jobs = self._files.jobs
        with translated(part), closing(Connection(part, isolation_level=None)) as target:
            with translated(jobs), closing(open_to_look(jobs)) as source:
                # In a transaction of its own it goes on with what it saw first, whatever others write.
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM sqlite_master").fetchone()
                source.backup(target, pages=PAGES, progress=_told(progress, part))
            target.execute("PRAGMA journal_mode = DELETE")  # one file, with no log beside it

    def _restore(self, copy: Path, progress: Progress) -> None:
        prepare(self._files, self._namespace)
        jobs = self._files.jobs
        with (
            translated(copy),
            closing(open_to_look(copy)) as source,
            translated(jobs),
            closing(open_jobs(self._files)) as target,
            FairLock(self._files.bell),
        ):
            [(here,)], [(there,)] = (each.execute("PRAGMA main.page_size").fetchall() for each in (target, source))
            if here != there:
                raise StoreError(
                    f"{copy} has pages of {there} bytes and {jobs} of {here}, which SQLite cannot change while the"
                    f" file is in use: stop all programs, move the backup there, and delete {jobs.name}-wal and"
                    f" {jobs.name}-shm"
                )
            source.backup(target, pages=PAGES, progress=_told(progress, jobs))

    def _refuse_other_schemas(self, connection: Connection, path: Path) -> None:
        """Refuse a file that others, who have the store open, could not go on with."""
        if not schema_version(connection, self._namespace):
            which = f" in namespace '{self._namespace}'" if self._namespace else ""
            raise StoreError(f"{path} holds no jobs of Standfast{which}")
        for (name,) in connection.execute(load_statements(None)["namespaces"]).fetchall():
            tenant = name.removeprefix("standfast_").removesuffix("schema").removesuffix("_") or None
            if missing(connection, path, tenant, len(load_migrations("jobs", tenant))):
                raise SchemaError(
                    f"{path} is of an older release: bring a copy of it to this one, by `standfast migrate --url"
                    " sqlite:///COPY`, and take that"
                )


def _told(progress: Progress, path: Path) -> Callable[[int, int, int], None]:
    """Return what SQLite calls after each step. A lock that stays taken is not waited for without an end."""

    def tell(status: int, left: int, total: int) -> None:
        if status in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StoreUnavailableError(
                f"{path} is locked by another writer for over {BUSY_TIMEOUT:g} s: end its transaction, or try again"
            )
        progress(total - left, total)

    return tell
