"""The floor: what bare psycopg does with the same batches, and nothing of what makes jobs safe.

Narrow hot tables, prepared statements, one connection, one process; claims and finishes take turns. No fences that
anybody checks, no leases, no history, no wake-ups. Ids are random, as a bare uuid4 is.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from measured import URL

INSERT_BATCH = 1000
CLAIM_BATCH = 500

_PAYLOAD = '{"v":1,"args":{"n":12345}}'
_TABLES = """
CREATE SCHEMA floor;
CREATE TABLE floor.job (id uuid PRIMARY KEY, task text NOT NULL, args text NOT NULL, queue text NOT NULL);
CREATE TABLE floor.ready (queue text NOT NULL, priority int NOT NULL, xid xid8 NOT NULL, seq bigserial, id uuid NOT NULL);
CREATE INDEX ON floor.ready (queue, priority DESC, xid, seq);
CREATE TABLE floor.lease (id uuid NOT NULL, fence int NOT NULL, worker int NOT NULL);
CREATE INDEX ON floor.lease (id);
CREATE TABLE floor.outcome (id uuid NOT NULL, fence int NOT NULL, state text NOT NULL, at timestamptz NOT NULL);
CREATE INDEX ON floor.outcome (id);
"""
_INSERT = """
WITH new AS (
    INSERT INTO floor.job SELECT id, 'noop', %s, 'default' FROM unnest(%s::uuid[]) AS id RETURNING id
)
INSERT INTO floor.ready (queue, priority, xid, id) SELECT 'default', 0, pg_current_xact_id(), id FROM new
"""
_CLAIM = """
WITH picked AS (
    SELECT ctid FROM floor.ready WHERE queue = 'default' ORDER BY queue, priority DESC, xid, seq LIMIT %s
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM floor.ready USING picked WHERE ready.ctid = picked.ctid RETURNING ready.id
), leased AS (
    INSERT INTO floor.lease SELECT id, 1, 1 FROM taken
)
SELECT job.id, job.task, job.args FROM taken JOIN floor.job ON job.id = taken.id
"""
_FINISH = """
WITH ended AS (
    DELETE FROM floor.lease USING unnest(%s::uuid[]) AS done (id) WHERE lease.id = done.id RETURNING lease.id, fence
)
INSERT INTO floor.outcome SELECT id, fence, 'completed', now() FROM ended
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
            database.execute(_FINISH, ([id_ for id_, _, _ in rows],))
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
