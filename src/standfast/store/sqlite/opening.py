"""Opens connections, and tells whether one still leads to the files of its name, and to their logs."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from standfast.errors import StoreUnavailableError
from standfast.store.brief import refuse_foreign
from standfast.store.sqlite.connect import Files, prepare
from standfast.store.sqlite.forks import GATE, Connection, Identity
from standfast.store.sqlite.walfiles import inode, note_logs, refuse_foreign_logs

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
        GATE.refuse_crossed()
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
