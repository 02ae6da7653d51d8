"""What `standfast doctor` finds out about a SQLite store.

Where a store's files lie: may they be written, on what file system, and is there room.
"""

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from standfast.errors import StoreError
from standfast.model.clock import Clock
from standfast.model.records import Kind
from standfast.stores.doctor import (
    KEPT,
    Census,
    DueQueue,
    Examination,
    Finding,
    Severity,
    UnknownTask,
    is_hopeless,
    sized,
)
from standfast.stores.rows import from_micros, from_micros_or_none, to_micros
from standfast.stores.sqlite.connect import (
    FORK_GUARD,
    OLDEST_SQLITE,
    SYNCHRONOUS,
    Connection,
    Files,
    file_system_of,
    may_write,
    open_to_look,
    refuse_foreign_logs,
    refuse_network_file_system,
)
from standfast.stores.sqlite.statements import (
    load_migrations,
    load_statements,
    run_steps,
    schema_version,
    translated,
)
from standfast.stores.sqlite.store import SqliteStore

SCARCE_BYTES = 500_000_000
SCARCE_SHARE = 0.05

_MOUNTS = Path("/proc/mounts")


def look_around(files: Files) -> Iterator[Finding]:
    """Yield what is found without opening anything."""
    folder = files.jobs.parent
    if not folder.is_dir():
        yield Finding.problem("permissions", f"there is no folder {folder}", f"create it with `mkdir -p {folder}`")
        return
    yield _permissions(files)
    yield _file_system(files.jobs)
    yield _room(folder)


def _permissions(files: Files) -> Finding:
    forbidden = [str(path) for path, wanted in _wanted(files) if path.exists() and not os.access(path, wanted)]
    if forbidden:
        return Finding.problem(
            "permissions",
            f"this user may not read and write {', '.join(forbidden)}",
            "give the user that runs workers and clients these rights, on the folder too",
        )
    return Finding.ok("permissions", f"{files.jobs.parent} and the files of the store are writable")


def _wanted(files: Files) -> Iterator[tuple[Path, int]]:
    """Yield whatever the store consists of, with the rights that it takes."""
    yield files.jobs.parent, os.R_OK | os.W_OK | os.X_OK
    yield files.bell, os.R_OK | os.W_OK | os.X_OK
    for file in (files.jobs, files.beats):
        for end in ("", "-wal", "-shm"):
            yield file.with_name(file.name + end), os.R_OK | os.W_OK


def _file_system(path: Path) -> Finding:
    try:
        refuse_network_file_system(path)
    except StoreError as error:
        return Finding.of_error("file system", error)
    try:
        kind = file_system_of(path, _MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        kind = ""
    return Finding.ok("file system", f"{kind or 'of unknown kind'}, not a network file system that we know")


def _room(folder: Path) -> Finding:
    total, _, free = shutil.disk_usage(folder)
    says = f"{sized(free)} of {sized(total)} are free"
    if free < SCARCE_BYTES or free < total * SCARCE_SHARE:
        return Finding.warning("disk space", says, "free some: on a full disk nothing can be enqueued or finished")
    return Finding.ok("disk space", says)


# Looks at a SQLite store for doctor: is it there, sound, of this release, and what is in it. It writes nothing.

PATIENCE = 2.0
"""Seconds that another may write before it is worth a word."""

SMALL = 64_000_000
"""Bytes up to which a file is read through without being asked to."""

_VITAL = frozenset({"sqlite", "store", "file system", "schema", "integrity"})
"""A problem with one of these keeps everybody out."""


def examine_file(path: str, namespace: str | None, clock: Clock, *, deep: bool) -> Examination:
    """Return what a look at the store in this file brings."""
    files = Files.of(path)
    findings = [_version(), *look_around(files)]
    census = None
    if not files.jobs.is_file():
        findings.append(_missing(files.jobs))
    elif not is_hopeless(findings, _VITAL):  # a network file system is not even touched
        try:
            refuse_foreign_logs(files)
            with translated(files.jobs):
                findings += FORK_GUARD.run(lambda: list(_look_inside(files, namespace, deep=deep)))
                if all(finding.severity is Severity.OK for finding in findings if finding.check == "schema"):
                    census = FORK_GUARD.run(lambda: _take_census(files, namespace, clock))
        except StoreError as error:
            findings.append(Finding.of_error("store", error))
    return Examination.of(findings, _VITAL, census)


def _version() -> Finding:
    found = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding.problem("sqlite", f"SQLite {found} is too old", "use a Python built with 3.35 or newer")
    return Finding.ok("sqlite", f"SQLite {found}")


def _missing(file: Path) -> Finding:
    if file.exists():
        return Finding.problem("store", f"{file} is no file", "name a file in the URL")
    return Finding.problem(
        "store",
        f"there is no database {file}",
        "give the right one with --url or STANDFAST_URL, or start a worker, which makes it",
    )


def _look_inside(files: Files, namespace: str | None, *, deep: bool) -> Iterator[Finding]:
    with closing(open_to_look(files.jobs)) as connection:
        yield _contents(connection, files.jobs)
        yield _durability(connection)
        yield _schema(connection, files, namespace)
        yield _integrity(connection, files.jobs, deep=deep)
        yield _writes(files.jobs)


def _contents(connection: Connection, file: Path) -> Finding:
    # The statement means every namespace, so it is not prefixed with one.
    names = [name for (name,) in connection.execute(load_statements(None)["namespaces"])]
    tenants = [name.removeprefix("standfast_").removesuffix("schema").removesuffix("_") for name in names]
    told = ", ".join(tenant or "(none)" for tenant in sorted(tenants))
    log = file.with_name(file.name + "-wal")
    size = file.stat().st_size + (log.stat().st_size if log.exists() else 0)
    return Finding.ok("store", f"sqlite file {file}, {sized(size)}; namespaces in it: {told or 'no tables yet'}")


def _durability(connection: Connection) -> Finding:
    [(mode,)] = connection.execute("PRAGMA journal_mode")
    if mode != "wal":
        return Finding.warning(
            "durability",
            f"journal_mode is {mode}",
            "nothing to do: the first use by this release switches it to wal",
        )
    says = f"journal_mode wal, synchronous {SYNCHRONOUS}: {KEPT}"
    if platform.system() == "Darwin":
        return Finding.warning(
            "durability",
            f"{says}; but on macOS fsync leaves data in the drive's cache: a power loss may cost the last commits",
            "run what must survive a power loss on Linux",
        )
    return Finding.ok("durability", says)


def _schema(connection: Connection, files: Files, namespace: str | None) -> Finding:
    found, known = schema_version(connection, namespace), len(load_migrations("jobs", namespace))
    beats_found, beats_known = _beats_version(files.beats, namespace), len(load_migrations("beats", namespace))
    if found == 0:
        which = f" in namespace '{namespace}'" if namespace else ""
        return Finding.problem(
            "schema",
            f"the file holds no jobs of Standfast{which}",
            "give the right store with --url and --namespace, or start a worker, which makes the tables",
        )
    if found > known or beats_found > beats_known:
        return Finding.problem(
            "schema",
            f"version {found} of a newer Standfast; this release knows {known}",
            "upgrade standfast here, or name another file",
        )
    if found < known or beats_found < beats_known:
        return Finding.warning(
            "schema",
            f"version {found}, and {beats_found} of the heartbeats; this release has {known} and {beats_known}",
            "nothing to do: the first use by this release migrates it; older workers then stop working",
        )
    return Finding.ok("schema", f"version {found}, as this release has it")


def _beats_version(file: Path, namespace: str | None) -> int:
    if not file.is_file():
        return 0
    with translated(file), closing(open_to_look(file)) as connection:
        return schema_version(connection, namespace)


def _integrity(connection: Connection, file: Path, *, deep: bool) -> Finding:
    if not deep and file.stat().st_size > SMALL:
        says = f"not looked at: the file has more than {sized(SMALL)}"
        return Finding.ok("integrity", f"{says}; --deep reads all of it")
    kind = "integrity_check" if deep else "quick_check"
    [(answer,)] = connection.execute(f"PRAGMA {kind}(1)")
    if answer != "ok":
        return Finding.problem("integrity", f"{kind} says: {answer}", "restore the file from a backup")
    return Finding.ok("integrity", f"{kind} finds no damage")


def _writes(file: Path) -> Finding:
    if may_write(file, PATIENCE):
        return Finding.ok("writes", "nobody keeps others from writing")
    return Finding.problem(
        "writes",
        f"the file was locked for writing for {PATIENCE:g} s: meanwhile no job can be enqueued or claimed",
        "end the transaction that goes on, in a program of yours or a database tool; `fuser FILE` names who has the"
        " file open",
    )


def _take_census(files: Files, namespace: str | None, clock: Clock) -> Census:
    sql, store = load_statements(namespace), SqliteStore(clock, namespace)
    with closing(open_to_look(files.jobs, files.beats)) as connection:
        connection.execute("BEGIN")
        now = clock.now()
        paused_at = dict(connection.execute(sql["paused_queues"]).fetchall())
        due = [
            DueQueue(name, from_micros_or_none(paused_at.get(name)), count, from_micros(oldest))
            for name, count, oldest in connection.execute(sql["due_queues"], (to_micros(now),))
        ]
        workers = run_steps(connection, store.workers().steps)
        windows = run_steps(connection, store.records(Kind.WINDOW).steps)
        incidents = run_steps(connection, store.records(Kind.INCIDENT).steps)
        board = run_steps(connection, store.records(Kind.BOARD).steps)
        [(latest,)] = connection.execute(sql["latest_time"])
        unknown = tuple(UnknownTask(*row) for row in connection.execute(sql["put_aside"]))
        [(dead,)] = connection.execute(sql["dead_count"])
    return Census(now, workers, tuple(due), from_micros_or_none(latest), windows, unknown, dead, incidents, board)
