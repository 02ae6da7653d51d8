"""The table of the exercise, and the one object through which its instances reach it: each call is written down.

Jobs(Id, RunAt, CreateAt, LockAt, ExecuteAt, State); State is 0 created, 1 locked, 2 completed. Times are seconds of
the wall clock.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from game.contender import Due
from game.counted.journal import Journal
from game.evidence import Played

CREATED, LOCKED, COMPLETED = 0, 1, 2
PATIENCE = 30.0
"""Seconds to wait for a lock of the database."""

_MAKE = """
CREATE TABLE IF NOT EXISTS Jobs (
    Id INTEGER PRIMARY KEY, RunAt REAL NOT NULL, CreateAt REAL NOT NULL, LockAt REAL, ExecuteAt REAL,
    State INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS Jobs_by_time ON Jobs (State, RunAt);
"""


class Listed(msgspec.Struct, frozen=True):
    """A job as a list of ready ones has it."""

    id: int
    run_at: float


class Table:
    """One connection to the table, for one thread. Without a journal it is the game's own, which costs nothing."""

    def __init__(self, path: Path, journal: Journal | None = None) -> None:
        self._path = path
        self._journal = journal
        self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_MAKE)

    def create(self, jobs: Sequence[Due]) -> None:
        """Put jobs into the table."""
        now = time.time()
        rows = [(job.number, job.run_at, now) for job in jobs]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO Jobs (Id, RunAt, CreateAt) VALUES (?, ?, ?)", rows)

    def list_ready(self, ahead: float = 0.0) -> list[Listed]:
        """Return the jobs that nobody has locked and whose time comes within so many seconds."""
        assert self._journal is not None
        with self._journal.noting("list") as noted:
            rows = self._connection.execute(
                "SELECT Id, RunAt FROM Jobs WHERE State = 0 AND RunAt < ? ORDER BY RunAt, Id",
                (time.time() + ahead,),
            ).fetchall()
            noted.jobs = len(rows)
        return [Listed(*row) for row in rows]

    def look(self, job: int) -> int:
        """Return the state of one job."""
        assert self._journal is not None
        with self._journal.noting("look") as noted:
            [(state,)] = self._connection.execute("SELECT State FROM Jobs WHERE Id = ?", (job,)).fetchall()
            noted.jobs = 1
        return int(state)

    def lock(self, job: int) -> bool:
        """Take a job; False where somebody else has it."""
        assert self._journal is not None
        with self._journal.noting("lock") as noted:
            got = self._connection.execute(
                "UPDATE Jobs SET State = 1, LockAt = ? WHERE Id = ? AND State = 0", (time.time(), job)
            ).rowcount
            noted.jobs, noted.stale = 1, 1 - got
        return got == 1

    def complete(self, job: int) -> None:
        """Say that a locked job was run."""
        assert self._journal is not None
        with self._journal.noting("complete") as noted:
            self._connection.execute(
                "UPDATE Jobs SET State = 2, ExecuteAt = ? WHERE Id = ? AND State = 1", (time.time(), job)
            )
            noted.jobs = 1

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()


def read_table(path: Path) -> list[Played]:
    """Return all jobs as they are in the end."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT Id, RunAt, State, ExecuteAt FROM Jobs ORDER BY Id").fetchall()
    return [Played(number, run_at, state == COMPLETED, stored_at) for number, run_at, state, stored_at in rows]
