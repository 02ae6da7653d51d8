"""Connections: which files, how they are opened, and how they are made ready once per process."""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from standfast.errors import ConfigurationError, StoreError
from standfast.store.sqlite.filesystem import refuse_network_file_system
from standfast.store.sqlite.forks import Connection
from standfast.store.sqlite.migrate import migrate
from standfast.store.sqlite.translate import BUSY_TIMEOUT, is_busy, translated
from standfast.store.sqlite.walfiles import forget_logs, refuse_foreign_logs

WAL_LIMIT = 64 * 1024 * 1024
"""Bytes that a write-ahead log keeps on disk after a checkpoint; it is cut back to this."""

OLDEST_SQLITE = (3, 35, 0)
"""The first SQLite with RETURNING."""

SYNCHRONOUS = "FULL"
"""How the jobs file is written: a commit is on the disk when it is answered."""

_CACHE_KIB = 16 * 1024
_CHECKPOINT_PAGES = 1000
_RETRY_EVERY = 0.01


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one store. Symbolic links are resolved: the beats belong beside the file itself."""

    jobs: Path
    beats: Path
    bell: Path

    @classmethod
    def of(cls, path: str | Path) -> "Files":
        """Return the files that belong to a path."""
        if str(path) in {"", ":memory:"}:
            raise ConfigurationError(
                f"the sqlite store needs a file, not {str(path)!r}: say sqlite:///standfast.db"
            )
        try:
            jobs = Path(path).resolve()
        except RuntimeError as error:
            raise StoreError(f"{path} cannot be opened: its symbolic links lead in a circle") from error
        return cls(jobs, jobs.with_name(jobs.name + "-beats"), jobs.with_name(jobs.name + "-bell"))


def prepare(files: Files, namespace: str | None, *, create: bool = True) -> None:
    """Create or migrate both files. Cheap where nothing is to be done, and safe to do in many processes at once.

    Without `create` the jobs file must be there.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: use a Python built with SQLite 3.35 or newer"
        )
    refuse_network_file_system(files.jobs)
    refuse_foreign_logs(files)
    for kind, path, mode in (("jobs", files.jobs, "rwc" if create else "rw"), ("beats", files.beats, "rwc")):
        with translated(path), closing(_connect(path, mode)) as connection:
            _use_wal(connection)
            migrate(connection, path, kind, namespace)


def leave_tidy(files: Files) -> None:
    """Fold the logs into their files if nobody else has them open.

    SQLite does that when the last connection closes, but not if that one is a read-only view, as ours may be.
    """
    with suppress(StoreError):
        refuse_foreign_logs(files)
        for path in (files.jobs, files.beats):
            with suppress(sqlite3.Error), closing(_connect(path, "rw")) as connection:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("SELECT count(*) FROM sqlite_master")
        forget_logs(files)


def open_jobs(files: Files) -> Connection:
    """Open the jobs file to write, with a read-only view of the beats."""
    checkpoints = f"wal_autocheckpoint = {_CHECKPOINT_PAGES}"
    return _open(files.jobs, files.beats, f"synchronous = {SYNCHRONOUS}", checkpoints)


def open_beats(files: Files) -> Connection:
    """Open the beats file to write, with a read-only view of the jobs."""
    return _open(files.beats, files.jobs, "synchronous = NORMAL")


def open_reader(files: Files) -> Connection:
    """Open both files to read. `casefold` is Python's own, as SQLite knows the case of ASCII letters only."""
    connection = _open(files.jobs, files.beats, "query_only = ON")
    connection.create_function("casefold", 1, _casefold, deterministic=True)
    return connection


def open_to_look(path: Path, beside: Path | None = None) -> Connection:
    """Open a file to look at it as it is, and another beside it: nothing is made, migrated or written."""
    other = None if beside is None else _uri(beside, _mode_to_look(beside))
    return _opened(path, _mode_to_look(path), ("query_only = ON",), other)


def may_write(path: Path, patience: float) -> bool:
    """Tell whether others let a transaction begin that writes, within so many seconds. Nothing is written.

    The caller has the file open to look: so this connection is not the last, which would fold the log into it.
    """
    with closing(_connect(path, "rw")) as connection:
        connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return not is_busy(error)
        connection.execute("ROLLBACK")
        return True


def _mode_to_look(path: Path) -> str:
    """Return how to open a file so that it stays as it is.

    A last connection that may write folds the log into the file; one that may not leaves an empty log behind.
    """
    return "ro" if path.with_name(path.name + "-wal").exists() else "rw"


def _open(path: Path, beside: Path, *settings: str) -> Connection:
    common = (f"journal_size_limit = {WAL_LIMIT}", f"cache_size = -{_CACHE_KIB}", "temp_store = MEMORY")
    return _opened(path, "rw", (*common, *settings), _uri(beside, "ro"))


def _opened(path: Path, mode: str, settings: Sequence[str], beside: str | None) -> Connection:
    with translated(path):
        connection = _connect(path, mode)
        try:
            for setting in settings:
                connection.execute(f"PRAGMA main.{setting}")
            if beside is not None:
                connection.execute("ATTACH DATABASE ?1 AS beside", (beside,))
                for name in ("main", "beside"):  # from its first read on the log is there, and stays
                    connection.execute(f"PRAGMA {name}.schema_version").fetchone()
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> Connection:
    return Connection(
        _uri(path, mode), uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
    )


def _casefold(text: str | None) -> str | None:
    return None if text is None else text.casefold()


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(bytes(path))}?mode={mode}"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite refuses two that switch at once without waiting, so the waiting is done here."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_EVERY)
        else:
            return
