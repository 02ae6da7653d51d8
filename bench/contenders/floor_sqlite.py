"""The floor: what bare sqlite3 does with the same batches, and nothing of what makes jobs safe.

A lean table with one index, the same durability (WAL, synchronous=FULL), transactions of the same sizes. No leases,
no history, no checks of arguments, no second process. Ids are random, as a bare uuid4 is; with ids that grow with
time, as Standfast makes them, SQLite itself does about twice as much, and that is measured beside it.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

from measured import FOLDER, TALLY

from standfast.model.ids import new_job_id

INSERT_BATCH = 1000
CLAIM_BATCH = 500

_PAYLOAD = b'{"v":1,"args":{"n":12345}}'
_TABLE = """
CREATE TABLE job (
    id BLOB PRIMARY KEY, task TEXT, payload BLOB, queue TEXT, priority INTEGER DEFAULT 0, state INTEGER DEFAULT 0,
    run_at REAL, fence INTEGER DEFAULT 0, worker INTEGER, finished_at REAL, result BLOB
) WITHOUT ROWID;
CREATE INDEX ready ON job (queue, priority DESC, run_at, id) WHERE state = 0;
"""
_INSERT = "INSERT INTO job (id, task, payload, queue, run_at) VALUES (?, 'noop', ?, 'default', ?)"
_CLAIM = """
UPDATE job SET state = 1, fence = fence + 1, worker = 1 WHERE id IN (
    SELECT id FROM job WHERE queue = 'default' AND state = 0 AND run_at <= ?
    ORDER BY priority DESC, run_at, id LIMIT ?
) RETURNING id, fence, payload
"""
_FINISH = "UPDATE job SET state = 2, finished_at = ?, result = ? WHERE id = ? AND fence = ? AND state = 1"


NewId = Callable[[], str | bytes]


def one_by_one(count: int) -> float:
    """Return rows per second, each in a transaction of its own."""
    with _database() as database:
        began = time.perf_counter()
        _insert(database, count, 1, _random_id)
        return count / (time.perf_counter() - began)


def in_bulk(count: int) -> float:
    """Return rows per second, a thousand in each transaction."""
    with _database() as database:
        began = time.perf_counter()
        _insert(database, count, INSERT_BATCH, _random_id)
        return count / (time.perf_counter() - began)


def drain(count: int) -> float:
    """Return rows per second, claimed in one transaction and finished in another, five hundred in each."""
    return _drain(count, _random_id)


def drain_ordered(count: int) -> float:
    """Return rows per second of the same drain where ids grow with time."""
    return _drain(count, new_job_id)


def _drain(count: int, new_id: NewId) -> float:
    with _database() as database:
        _insert(database, count, INSERT_BATCH, new_id)
        began, done = time.perf_counter(), 0
        while done < count:
            rows = database.execute(_CLAIM, (time.time(), CLAIM_BATCH)).fetchall()
            for _ in rows:
                TALLY.tick()
            now = time.time()
            with _transaction(database):
                database.executemany(_FINISH, [(now, b"null", id_, fence) for id_, fence, _ in rows])
            done += len(rows)
        return count / (time.perf_counter() - began)


def _random_id() -> bytes:
    return uuid4().bytes


def _insert(database: sqlite3.Connection, count: int, batch: int, new_id: NewId) -> None:
    for start in range(0, count, batch):
        rows = [(new_id(), _PAYLOAD, time.time()) for _ in range(min(batch, count - start))]
        with _transaction(database):
            database.executemany(_INSERT, rows)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    yield
    database.execute("COMMIT")


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(FOLDER / "floor.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLE)
        yield database
