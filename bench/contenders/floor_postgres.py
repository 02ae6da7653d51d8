"""The floor: what bare psycopg does with the same batches, and nothing of what makes jobs safe.

Narrow hot tables, prepared statements, one connection, one process; claims and finishes take turns. No leases
that run out, no history, no wake-ups, no second process. Ids are random, as a bare uuid4 is.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from measured import TALLY, URL

INSERT_BATCH = 1000
CLAIM_BATCH = 500

_PAYLOAD = '{"v":1,"args":{"n":12345}}'
_TABLES = """
CREATE SCHEMA floor;
CREATE TABLE floor.job (
    id uuid PRIMARY KEY, task text NOT NULL, args text NOT NULL, queue text NOT NULL,
    priority int NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(), max_attempts int NOT NULL DEFAULT 3,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE floor.ready (
    queue text NOT NULL, priority int NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY, id uuid NOT NULL, attempt int NOT NULL DEFAULT 0
);
CREATE INDEX ON floor.ready (queue, priority DESC, xid, seq);
CREATE TABLE floor.lease (
    id uuid NOT NULL, worker int NOT NULL, attempt int NOT NULL, claimed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON floor.lease (id);
CREATE TABLE floor.outcome (
    id uuid NOT NULL, attempt int NOT NULL, state text NOT NULL, finished_at timestamptz NOT NULL DEFAULT now(),
    error text
);
CREATE INDEX ON floor.outcome (id);
"""
_INSERT = """
WITH new AS (
    INSERT INTO floor.job (id, task, args, queue) SELECT id, 'noop', %s, 'default' FROM unnest(%s::uuid[]) AS id
    RETURNING queue, priority, id
)
INSERT INTO floor.ready (queue, priority, id) SELECT queue, priority, id FROM new
"""
_CLAIM = """
WITH picked AS (
    SELECT ctid FROM floor.ready WHERE queue = 'default' ORDER BY queue, priority DESC, xid, seq LIMIT %s
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM floor.ready USING picked WHERE ready.ctid = picked.ctid RETURNING ready.id, ready.attempt
), leased AS (
    INSERT INTO floor.lease (id, worker, attempt) SELECT id, 1, attempt + 1 FROM taken
)
SELECT job.id, job.task, job.args, taken.attempt + 1 FROM taken JOIN floor.job ON job.id = taken.id
"""
_FINISH = """
WITH ended AS (
    DELETE FROM floor.lease USING unnest(%s::uuid[], %s::int[]) AS done (id, attempt)
    WHERE lease.id = done.id AND lease.attempt = done.attempt RETURNING lease.id, lease.attempt
)
INSERT INTO floor.outcome (id, attempt, state) SELECT id, attempt, 'completed' FROM ended
"""


def one_by_one(count: int) -> float:
    """Return jobs per second, each in a transaction of its own."""
    with _database() as database:
        began = time.perf_counter()
        _insert(database, count, 1)
        return count / (time.perf_counter() - began)


def in_bulk(count: int) -> float:
    """Return jobs per second, a thousand in each transaction."""
    with _database() as database:
        began = time.perf_counter()
        _insert(database, count, INSERT_BATCH)
        return count / (time.perf_counter() - began)


def drain(count: int) -> float:
    """Return jobs per second, claimed in one transaction and finished in another, five hundred in each."""
    with _database() as database:
        _insert(database, count, INSERT_BATCH)
        began, done = time.perf_counter(), 0
        while done < count:
            rows = database.execute(_CLAIM, (CLAIM_BATCH,)).fetchall()
            for _ in rows:
                TALLY.tick()
            database.execute(_FINISH, ([row[0] for row in rows], [row[3] for row in rows]))
            done += len(rows)
        return count / (time.perf_counter() - began)


def _insert(database: psycopg.Connection[Any], count: int, batch: int) -> None:
    for start in range(0, count, batch):
        database.execute(_INSERT, (_PAYLOAD, [uuid4() for _ in range(min(batch, count - start))]))


@contextmanager
def _database() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(URL, autocommit=True) as database:
        database.execute(_TABLES, prepare=False)
        database.prepare_threshold = 0
        yield database
