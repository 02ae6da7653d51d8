"""The statements of SQLite: loaded, run, and their rows read; errors of sqlite3 become ours.

The boundary: what sqlite3 raises becomes our own errors, in one line that names the file and what to do.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from sqlite3 import complete_statement
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from standfast.errors import SchemaError, StoreError, StoreFullError, StoreUnavailableError, ValueNotStoredError
from standfast.model.clock import Clock
from standfast.model.job import Claim, ClaimRef, Glance, Job, OnLate
from standfast.model.states import State
from standfast.stores import statements
from standfast.stores.rows import (
    DAMAGES,
    from_micros,
    read_each,
    seconds_to_micros,
    span_from_micros,
    span_to_micros,
    to_micros,
    unreadable_claim,
)
from standfast.stores.statements import NO_METADATA, Row, read_metadata, read_statements, sql_files
from standfast.stores.values import Worker, read_vitals
from standfast.stores.verb import Bulk, Command, Query, Steps

BUSY_TIMEOUT = 5.0
"""Seconds that a call waits for another writer before it gives up."""

_PRIMARY = 0xFF

_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
"""SQLite says FULL for ENOSPC only; a file-size limit or a quota ends as a failed write."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_AWAY = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Let no error of sqlite3 escape."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another connection was in the way."""
    return _code(error) & _PRIMARY in _BUSY


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Return our error for one of sqlite3's."""
    extended = _code(error)
    code = extended & _PRIMARY
    if is_busy(error):
        return StoreUnavailableError(
            f"{path} is locked by another writer for over {BUSY_TIMEOUT:g} s: end its transaction, or try again"
        )
    if code in _NO_ROOM or extended in _NO_ROOM:
        return StoreFullError(
            f"{path} cannot grow, nothing of this call was stored: free disk space, or raise the quota or file-size"
            f" limit ({error})"
        )
    if code in _AWAY:
        return StoreUnavailableError(
            f"{path} cannot be read or written now: check the disk, then try again ({error})"
        )
    return StoreError(_refusal(code, error, path))


def _code(error: sqlite3.Error) -> int:
    # Errors that the Python module itself raises have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _refusal(code: int, error: sqlite3.Error, path: Path) -> str:
    if code in _DAMAGED:
        return f"{path} is no sound SQLite database: name another file, or restore it from a backup ({error})"
    if code in _FORBIDDEN:
        return f"{path} may not be written: give this user write permission on it and on its folder ({error})"
    if code == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(error, path)
    return f"{path} refused a statement ({error})"


def _cannot_open(error: sqlite3.Error, path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} for {path.name}: create it with `mkdir -p {path.parent}`"
    if path.is_dir():
        return f"{path} is a folder: name a file in it"
    return f"{path} cannot be opened: check its permissions and those of its folder ({error})"


# The statements and migrations of this store, with the table prefix of a namespace put in.

_FOLDER = files(__package__)
_PREFIX = re.compile(r"\bstandfast_")


@cache
def load_statements(namespace: str | None) -> Mapping[str, str]:
    """Return every named statement, for the tables of a namespace."""
    statements = read_statements(_FOLDER / "sql")
    return MappingProxyType({name: _prefixed(text, namespace) for name, text in statements.items()})


@cache
def load_migrations(kind: str, namespace: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the migrations of a kind of file (jobs, beats) in order, each as its single statements."""
    scripts = (file.read_text("utf-8") for file in sql_files(_FOLDER / "migrations" / kind))
    return tuple(tuple(_split(_prefixed(script, namespace))) for script in scripts)


def _prefixed(text: str, namespace: str | None) -> str:
    return text if namespace is None else _PREFIX.sub(f"standfast_{namespace}_", text)


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        if line.startswith("--") or not (statement or line.strip()):
            continue
        statement += line
        if complete_statement(statement):
            yield statement.strip()
            statement = ""


# Runs the statements of a verb on a connection. Who calls owns the transaction.

T = TypeVar("T")


class UndecodableTextError(StoreError):
    """A text in the file is no UTF-8. The connection reads it as bytes from now on: repeat the verb."""


class Executed(Protocol):
    """A statement that was run."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchall(self) -> list[Any]:
        """Return its rows."""
        ...


class Executor(Protocol):
    """Whatever runs statements on SQLite: a connection of our own, or our hand on a connection of the user's."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Executed:
        """Run a statement."""
        ...

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Executed:
        """Run a statement once for each row of parameters."""
        ...


def run_steps(connection: Executor, steps: Steps[T]) -> T:
    """Feed a verb the answers to its statements until it returns."""
    answer: Any
    try:
        statement = next(steps)
        while True:
            try:
                if isinstance(statement, Query):
                    answer = connection.execute(statement.sql, statement.params).fetchall()
                elif isinstance(statement, Bulk):
                    answer = connection.executemany(statement.sql, statement.rows).rowcount
                elif isinstance(statement, Command):
                    answer = connection.execute(statement.sql, statement.params).rowcount
                else:
                    raise TypeError(f"SQLite cannot run {statement!r}: it is of another store")
            except (OverflowError, UnicodeEncodeError, sqlite3.Error) as error:
                _refuse(connection, error)
                raise
            statement = steps.send(answer)
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


def _refuse(connection: Executor, error: Exception) -> None:
    """Raise what a failed statement means, where the error itself does not say that."""
    # Values that Python can hold and SQLite cannot: integers over 64 bits, lone surrogates.
    if not isinstance(error, sqlite3.Error) or _is_unbindable(error):
        raise ValueNotStoredError(f"SQLite cannot store a value of this call ({error})") from error
    if "decode to UTF-8" in str(error) and isinstance(connection, sqlite3.Connection):
        connection.text_factory = _text_or_bytes  # from now on, as such a row stays
        raise UndecodableTextError(str(error)) from error


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Return a text; one that somebody damaged stays bytes, and fails its own row alone."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _is_unbindable(error: sqlite3.Error) -> bool:
    """Tell whether a parameter was of a type without a place in SQLite, or over its limit of a billion bytes."""
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError):
        # The module raises these by itself, without a code, for other mistakes too; its words alone tell.
        return "binding parameter" in str(error)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG


# Brings the tables of a file to this release.
#
# Two processes that start at once do no harm: one waits, then finds nothing left to do.


def migrate(connection: sqlite3.Connection, path: Path, kind: str, namespace: str | None) -> None:
    """Apply what is missing to a file of a kind (jobs, beats), all of it or nothing."""
    migrations = load_migrations(kind, namespace)
    if missing(connection, path, namespace, len(migrations)) == 0:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        lacking = missing(connection, path, namespace, len(migrations))
        for statements in migrations[len(migrations) - lacking :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(load_statements(namespace)["set_schema_version"], (len(migrations),))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def missing(connection: Executor, path: Path, namespace: str | None, known: int) -> int:
    """Return how many of the known migrations a file lacks. Raises SchemaError for one of a newer release."""
    version = schema_version(connection, namespace)
    if version > known:
        raise SchemaError(
            f"{path} was made by a newer Standfast (schema {version}, this release knows {known}): upgrade"
            " standfast, or name another file"
        )
    return known - version


def schema_version(connection: Executor, namespace: str | None) -> int:
    """Return the number of the last migration applied to a file, 0 if there was none."""
    sql = load_statements(namespace)
    [(exists,)] = connection.execute(sql["schema_table"]).fetchall()
    if not exists:
        return 0
    [(version,)] = connection.execute(sql["schema_version"]).fetchall()
    return int(version)


# How old a sign of life is. Pure; times are microseconds of the boot clock, which suspend does not stop.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Return which boot of the machine this is, or '' where the system does not say."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's lease and its last sign of life, as `leases` selects them.

    Its queues (JSON) and its last poll (microseconds since 1970) decide about its turn.
    """

    worker: str
    lease: int
    beat_at: int
    boot_id: str
    condemned: int
    queues: str | None = None
    polled_at: int | None = None

    def age(self, boot_at: int, boot_id: str) -> int:
        """Return the time since the sign; one of another boot is as old as this boot, and never fresh."""
        if boot_id != self.boot_id:
            return max(boot_at, self.lease + 1)
        return boot_at - self.beat_at

    def left(self, boot_at: int) -> int:
        """Return how long a lease that is not over still lasts."""
        return self.lease - (boot_at - self.beat_at)

    def is_over(self, boot_at: int, boot_id: str) -> bool:
        """Tell whether the lease has run out, or the worker is condemned already."""
        return bool(self.condemned) or self.age(boot_at, boot_id) > self.lease


# What all verbs of this store share: the named statements, the clock, and the JSON form of lists.


class SqliteVerbs:
    """Base of the groups of verbs. A verb reads the clock when it runs, that is, under its transaction's lock."""

    def __init__(self, statements: Mapping[str, str], clock: Clock) -> None:
        self._sql = statements
        self._clock = clock
        self._boot_id = this_boot()

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _boot(self) -> int:
        return seconds_to_micros(self._clock.boot())


def to_json(values: Iterable[str] | None) -> str | None:
    """Return strings as the JSON array that a statement unfolds with json_each; None means all."""
    return None if values is None else json.dumps(list(values))


# From rows to the values that others see.

# Claims are made in the hot path, and an enum's members are slow to get.
_RUN = OnLate.RUN

_BY_TIME = (State.READY, State.SCHEDULED)


def to_claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the claims that `claim_columns` tell of, in the order of the rows."""
    try:
        return _to_claims(rows)
    except DAMAGES:
        return read_each(_to_claims, rows, _unreadable)


def _unreadable(row: Row, error: Exception) -> Claim:
    _, _, _, job_id, fence, _, _, _, queue, *_ = row
    return unreadable_claim(job_id, fence, queue, error)


def _to_claims(rows: Sequence[Row]) -> list[Claim]:
    return [
        Claim(
            ClaimRef(id_, fence),
            task,
            version,
            payload,
            queue,
            -rank,
            from_micros(run_at),
            attempt,
            crashes,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            NO_METADATA if metadata is None else read_metadata(metadata),
        )
        for (
            rank,
            run_at,
            _,
            id_,
            fence,
            task,
            version,
            payload,
            queue,
            attempt,
            crashes,
            max_attempts,
            start_by,
            on_late,
            metadata,
        ) in rows
    ]


def shown_state(state: str, run_at: datetime, now: datetime) -> State:
    """Return the state that people see: what waits for its time only is ready once that has come."""
    stored = State(state)
    if stored not in _BY_TIME:
        return stored
    return State.READY if run_at <= now else State.SCHEDULED


def state_of(state: str, run_at: int, now: datetime) -> State:
    """Return the same of a row that may hold anything: without a state it is dead, without a time never due."""
    try:
        return shown_state(state, from_micros(run_at), now)
    except DAMAGES:
        return State(state) if state in set(State) else State.DEAD


def to_job(row: Row, now: datetime) -> Job:
    """Return the job that `job_columns` tell of, as it is by now."""
    job = statements.to_job(row, json.loads)
    is_gone = job.result_until is not None and job.result_until <= now
    return replace(job, state=shown_state(job.state, job.run_at, now), result=None if is_gone else job.result)


def to_glance(row: Row, now: datetime) -> Glance:
    """Return the glance at the state, run_at and progress that `glance` selects."""
    state, run_at, *progress = row
    return Glance(state_of(state, run_at, now), statements.to_progress(*progress))


def read_list(text: str) -> list[str]:
    """Return the names in a JSON array; none where it is no such thing."""
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def to_worker(row: Row, boot_at: int, boot_id: str) -> Worker:
    """Return the worker that `workers` selects, seen at a time of the boot clock."""
    *who, started_at, beat_at, boot_id_then, condemned, held, running, vitals = row
    info = statements.to_worker_info(who, read_list)
    sign = Lease(info.id, span_to_micros(info.lease), beat_at, boot_id_then, condemned)
    age = span_from_micros(sign.age(boot_at, boot_id))
    return Worker(info, from_micros(started_at), age, bool(condemned), held, running, read_vitals(vitals))
