"""Connections to SQLite: how they are opened, kept from crossing a fork, and refused on network file systems.

No connection crosses a fork.

SQLite keeps its account of locks and shared memory per process, and the kernel keeps the locks. A forked child
inherits the first without the second: it takes for locked, or for its own, what is neither, and loses what it
commits. So who uses a connection does it inside the gate, and holds no lock in there that a fork would need:

    use:   GATE.run(work)
    fork:  shut the gate ─► wait until nobody is inside ─► close every connection ─► fork ─► open the gate
                                                                                      └─► a new gate in the child

A signal handler may raise in any function written in Python, also in `__enter__`, in `__exit__` and in the handlers
of a fork. So no such function counts who is inside: each thread holds a lock of its own while it is inside, and
functions of C alone shut and open the gate.

Whoever needs a connection later finds it closed and opens another (opening.py). `subprocess` does not run the
handlers of forks and does not need them: it replaces the child's program at once.

A fork always goes on. If a connection is in use after all, because the forking thread itself was interrupted inside
the gate, a call takes too long, or foreign code forked without the handlers, then the child cannot use this store,
and is told so.
"""

import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

import msgspec

from standfast.errors import ConfigurationError, StoreError, StoreUnavailableError
from standfast.stores.refusals import refuse_foreign
from standfast.stores.sqlite.statements import BUSY_TIMEOUT, is_busy, migrate, translated

FORK_PATIENCE = 2 * BUSY_TIMEOUT
"""Seconds that a fork waits for the calls that run; each of them waits for a lock a good deal shorter."""

_LOOK_EVERY = 0.0005

T = TypeVar("T")

Identity = tuple[tuple[int, int] | None, ...]
"""Which files a name means at a time: device and inode of each."""


class Connection(sqlite3.Connection):
    """A connection that knows whether it is open, and to which files. Others may close it while nobody uses it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.is_open = False
        self.leads_to: Identity = ()
        FORK_GUARD.connections.add(self)  # before it is open, so that none is open and unknown
        super().__init__(*args, **kwargs)
        self.is_open = True

    def close(self) -> None:
        """Close it; repeated, do nothing."""
        self.is_open = False
        super().close()
        FORK_GUARD.connections.discard(self)


class _Own(threading.local):
    """What a thread knows of itself."""

    forks = False
    has_shut = False


class ForkGuard:
    """Who is inside uses connections. A thread may enter again while it is inside."""

    def __init__(self) -> None:
        self._crossed: list[Connection] = []
        self._inside: dict[int, threading.Lock] = {}
        self._forks: list[None] = []
        self._own = _Own()
        self._begin()

    def run(self, work: Callable[[], T]) -> T:
        """Do some work inside. It waits for forks, but for one of this very thread."""
        me = threading.get_ident()
        inside = self._inside.get(me) or self._inside.setdefault(me, threading.Lock())
        if inside.locked():  # by this thread: nobody else takes it
            return work()
        while True:
            with inside:
                enters = not self._forks or self._own.forks
                if enters:
                    answer = work()  # and no `return`, which would leave the block before its lock is let go of
            if enters:
                return answer
            time.sleep(_LOOK_EVERY)

    @property
    def is_shut(self) -> bool:
        """Whether to enter now would mean to wait for a fork."""
        return bool(self._forks)

    def refuse_crossed(self) -> None:
        """Raise StoreError if connections of a parent process came into this one."""
        if self._pid != os.getpid():  # forked past all handlers, or a handler was interrupted
            self.after_in_child()
        if self._crossed:
            raise StoreError(
                "this process was forked in the middle of a call to the SQLite store, and cannot use it: fork where"
                " no call is under way, or close the app before"
            )

    def watch_forks(self) -> None:
        """Have this gate shut before each fork, and opened after it."""
        own = partial(setattr, self._own)
        # Called in reverse order. Twice, as a signal handler may raise in the first call, which a fork ignores.
        os.register_at_fork(before=self.before_fork)
        os.register_at_fork(before=self.before_fork)
        os.register_at_fork(before=partial(own, "has_shut", False))
        os.register_at_fork(before=partial(own, "forks", True), after_in_parent=partial(own, "forks", False))
        os.register_at_fork(before=partial(self._forks.append, None), after_in_parent=self._forks.pop)
        os.register_at_fork(after_in_child=partial(own, "forks", False))
        os.register_at_fork(after_in_child=self._forks.clear)
        os.register_at_fork(after_in_child=self._inside.clear)
        os.register_at_fork(after_in_child=self.after_in_child)

    def before_fork(self) -> None:
        """Wait for those inside, and close what is open."""
        if self._own.has_shut:
            return
        if self._is_left():
            # One at a time, so that of two forks none happens while the other closes.
            with self._closing:
                for connection in list(self.connections):
                    with suppress(sqlite3.ProgrammingError):  # it was never open
                        connection.close()
                    self.connections.discard(connection)
        self._own.has_shut = True

    def after_in_child(self) -> None:
        """Begin anew. What crossed is kept for ever: to close it would harm the parent's own connections."""
        self._crossed += list(self.connections)
        self._begin()

    def _is_left(self) -> bool:
        """Wait until nobody is inside. Who is inside itself does not: the others may be waiting for this thread."""
        give_up_at = time.monotonic() + FORK_PATIENCE
        while any(inside.locked() for inside in list(self._inside.values())):
            own = self._inside.get(threading.get_ident())
            if (own is not None and own.locked()) or time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _begin(self) -> None:
        self._inside.clear()
        self._forks.clear()
        self._closing = threading.Lock()
        self.connections = WeakSet[Connection]()
        self._pid = os.getpid()


FORK_GUARD = ForkGuard()
FORK_GUARD.watch_forks()


# Where a database file lies. WAL needs shared memory and working locks, which network file systems do not give.

_MOUNTS = Path("/proc/mounts")
_NETWORK = {
    *(
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.ceph",
        "fuse.davfs2",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
    ),
    *("fuse.smbnetfs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
}
_OCTAL = re.compile(r"\\([0-7]{3})")


def refuse_network_file_system(path: Path) -> None:
    """Raise StoreError if the file lies, or would lie, on a file system of another machine."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return
    kind = file_system_of(path, mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where SQLite loses data: put it on a local disk, or use"
            " a postgresql:// or redis:// store"
        )


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds an absolute path, '' if the mounts do not tell."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        _, point, candidate, *_ = line.split(" ")
        place = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), point))
        depth = len(place.parts)
        # On a tie the later line wins: it is mounted over the earlier one.
        if depth >= best and path.is_relative_to(place):
            best, kind = depth, candidate
    return kind


# Which write-ahead log belongs to which file. SQLite takes any log that has the right name.
#
# A backup that is moved over a file in use lies beside the log of the file before it, and SQLite would write that log
# into the backup. A log that is deleted in use has lost its name only: who has it open still writes to it, and others
# begin another one. Both end in a damaged file. So each process notes which log it found with which file, and none
# opens a file like this:
#
#     another file than noted, and the log noted, or its index (`-shm`)  ─► it was replaced
#     the index of a log without the log, or with another one            ─► the log was deleted
#
# Files are known by their inodes. The notes are in the folder of the bell, which nobody copies back.

_LOOKS = 3
_LOOK_AGAIN_AFTER = 0.005
"""Who closes a file removes first the index and then the log: so what looks wrong once may be an end under way."""


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A file, its log and the index of that: the inode of each, None for what is not there or has nothing in it."""

    file: int | None
    log: int | None
    index: int | None


def refuse_foreign_logs(files: "Files", orphans: Collection[int | None] = ()) -> None:
    """Raise StoreUnavailableError if a log is not that of its file, or was deleted in use.

    `orphans` are indexes of which the caller knows that their log was deleted, whatever lies there now.
    """
    noted = _noted(files)
    for path in (files.jobs, files.beats):
        found, known = look(path), noted.get(path.name)
        if known is not None and found.file not in {None, known.file}:
            log = _with_content(path, found.log)
            if (log is not None and log == known.log) or (found.index is not None and found.index == known.index):
                raise _replaced(path)
        if _has_lost_its_log(path, orphans):
            raise _deleted(path)


def note_logs(files: "Files", jobs: int | None, beats: int | None) -> None:
    """Note which logs the files have, if they are these still: to be called while a connection has them open."""
    found = {path.name: look(path) for path in (files.jobs, files.beats)}
    if (found[files.jobs.name].file, found[files.beats.name].file) != (jobs, beats) or found == _noted(files):
        return
    part = files.bell / f"logs-{secrets.token_hex(4)}"
    try:
        files.bell.mkdir(exist_ok=True)
        part.write_bytes(msgspec.json.encode(found))
        part.replace(_notes(files))
    except OSError as error:  # then this process alone knows
        refuse_foreign(error)
        with suppress(OSError):
            part.unlink()


def forget_logs(files: "Files") -> None:
    """Forget what was noted where no file has a log any more: the inodes may become those of others."""
    if all(found.log is None and found.index is None for found in map(look, (files.jobs, files.beats))):
        with suppress(OSError):
            _notes(files).unlink()


def look(path: Path) -> Found:
    """Return what there is of a file."""
    return Found(inode(str(path)), inode(f"{path}-wal"), inode(f"{path}-shm"))


def inode(name: str) -> int | None:
    """Return which file has this name, None where there is none."""
    try:
        return os.stat(name).st_ino  # noqa: PTH116 - the hot path
    except OSError as error:
        refuse_foreign(error)
        return None


def _with_content(path: Path, log: int | None) -> int | None:
    try:
        return log if Path(f"{path}-wal").stat().st_size else None
    except OSError as error:
        refuse_foreign(error)
        return None


def _has_lost_its_log(path: Path, orphans: Collection[int | None]) -> bool:
    for _ in range(_LOOKS):
        before, log, after = inode(f"{path}-shm"), inode(f"{path}-wal"), inode(f"{path}-shm")
        if before is None or before != after or (log is not None and before not in orphans):
            return False
        time.sleep(_LOOK_AGAIN_AFTER)
    return True


def _noted(files: "Files") -> Mapping[str, Found]:
    try:
        return msgspec.json.decode(_notes(files).read_bytes(), type=dict[str, Found])
    except OSError as error:
        refuse_foreign(error)
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _notes(files: "Files") -> Path:
    return files.bell / "logs"


def _replaced(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{path} was replaced, and {path.name}-wal and {path.name}-shm of the file before it would damage the new"
        " one: delete these two; to take a backup while programs use the file, run `standfast restore FILE`"
    )


def _deleted(path: Path) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{path}-wal was deleted while programs use the file, and nothing more is accepted: stop them all, delete"
        f" {path.name}-shm if it is still there, and start them again"
    )


# Connections: which files, how they are opened, and how they are made ready once per process.

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


# Opens connections, and tells whether one still leads to the files of its name, and to their logs.

_SETTLED = 1_000_000_000
"""Nanoseconds after which a change of a folder is sure to have another time than the one before."""


class Opener:
    """Opens connections to the files of one engine.

    The files are made ready before the first, and again when they were replaced: somebody may restore a backup
    while workers run.
    """

    def __init__(self, files: Files, namespace: str | None) -> None:
        self._files = files
        self._namespace = namespace
        self._folder = str(files.jobs.parent)
        self._names = tuple(f"{path}{end}" for end in ("", "-wal") for path in (files.jobs, files.beats))
        self._preparing = threading.Lock()
        self._prepared: Identity = ()
        self._sound: Identity = ()
        """For which files and logs it is known that these belong to those."""
        self._seen: tuple[tuple[int, int] | None, Identity] = (None, ())
        self._orphans = frozenset[int | None]()

    @property
    def has_opened(self) -> bool:
        """Whether there is anything to tidy up."""
        return bool(self._prepared)

    def renew(self, previous: Connection | None, connect: Callable[[Files], Connection]) -> Connection:
        """Return the connection if it is of use still; else close it and open another. To be called in the gate."""
        if previous is not None:
            found = self._identity()
            if previous.is_open and previous.leads_to == found:
                return previous
            if previous.is_open and previous.leads_to[:2] == found[:2]:
                self._save_deleted_log(previous, found)
            previous.close()
        FORK_GUARD.refuse_crossed()
        jobs, beats, *_ = self.prepare()
        connection = connect(self._files)
        connection.leads_to = self._identity()
        if connection.leads_to[:2] != (jobs, beats):
            connection.close()
            raise StoreUnavailableError(f"{self._files.jobs} was replaced while it was opened: try again")
        note_logs(self._files, *(each and each[1] for each in (jobs, beats)))
        return connection

    def prepare(self) -> Identity:
        """Make the files ready where that was not done yet, and return which they are. To be called in the gate."""
        with self._preparing:
            found = self._identity()
            if self._prepared and found[0] is None:
                # Not to be made anew: an empty file would hide that all jobs are gone.
                raise StoreUnavailableError(
                    f"{self._files.jobs} was removed or cannot be reached any more while in use: put it back, or"
                    " restart to begin with an empty one"
                )
            if found != self._sound:
                refuse_foreign_logs(self._files, self._orphans)
            self._orphans = frozenset()
            if found[:2] != self._prepared:
                prepare(self._files, self._namespace, create=not self._prepared)
                found = self._identity()
                self._prepared = found[:2]
            self._sound = found
            return found

    def _save_deleted_log(self, connection: Connection, found: Identity) -> None:
        """Write to the file what its nameless log holds, and trust no other log beside the same index."""
        self._orphans = frozenset(inode(f"{path}-shm") for path in (self._files.jobs, self._files.beats))
        if found[2] is None:  # else somebody may have written to another log by this index
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA main.wal_checkpoint(PASSIVE)").fetchone()

    def _identity(self) -> Identity:
        """Return which files have the names now. One look at their folder does where nothing has changed in it."""
        try:
            folder = os.stat(self._folder)  # noqa: PTH116 - the hot path
        except OSError as error:
            refuse_foreign(error)
            return (None,) * len(self._names)
        seen, found = self._seen
        if seen != (folder.st_ino, folder.st_mtime_ns):
            found = tuple(map(_inode, self._names))
            is_settled = time.time_ns() - folder.st_mtime_ns > _SETTLED
            self._seen = ((folder.st_ino, folder.st_mtime_ns) if is_settled else None, found)
        return found


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - the hot path
    except OSError as error:
        refuse_foreign(error)
        return None
    return (found.st_dev, found.st_ino)
