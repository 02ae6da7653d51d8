"""A store that has grown large gives out jobs as fast as an empty one.

Short by default; `make prove NAME=many_jobs_kept` fills it to full size, and asks for the times.
"""

import time
from contextlib import closing
from statistics import median

import psycopg
import pytest
from batches import BATCH, PAYLOAD, WORKER, Batches
from fleet import PROVE, sizes
from psycopg import sql

from connections import for_libpq
from empty_stores import with_query
from standfast.model.states import State
from standfast.stores.contract import count_states

FINISHED = sizes(short=20_000, full=5_000_000)
READY = sizes(short=4_000, full=700_000)
SCHEDULED = sizes(short=1_000, full=300_000)
CLAIMS = sizes(short={BATCH: 4, 1: 20}, full={BATCH: 200, 1: 1_000})
"""How many claims of how many jobs are measured."""

ASKED = 1.5
AT_ONCE = 1_000
"""Jobs that come in one transaction."""

pytestmark = pytest.mark.timeout(3000 if PROVE else 120)

PAST = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000 + number"
"""The time of a job by its number: a microsecond apart, since yesterday."""

ID = """overlay(overlay(overlay(md5(number::text || kind) PLACING lpad(to_hex(({past}) / 1000), 12, '0') FROM 1)
    PLACING '7' FROM 13) PLACING '8' FROM 17)::uuid"""
"""A UUIDv7 of that time."""

FILL = """
DO $fill$ BEGIN
    FOR start IN 0 .. {count} - 1 BY {at_once} LOOP
        WITH stored AS (
            INSERT INTO {schema}.job (id, task, version, queue, priority, run_at, max_attempts, created_at, payload)
            SELECT {id}, 'task', 1, 'default', 0, {past} + {ahead}, 3, {past}, {payload}
            FROM generate_series(start, least(start + {at_once}, {count}) - 1) AS number
            CROSS JOIN (SELECT {kind} AS kind) AS all_of
            RETURNING id, task, version, queue, priority, run_at, xid, seq
        )
        {place};
        COMMIT;
    END LOOP;
END $fill$
"""
PLACES = {
    State.COMPLETED: """INSERT INTO {schema}.outcome (id, state, queue, fence, worker, run_at, started_at,
            finished_at, attempt, crashes, alone, cancel_requested)
        SELECT id, 'completed', queue, 1, {worker}, run_at, run_at, run_at, 0, 0, false, false FROM stored""",
    State.READY: """INSERT INTO {schema}.fresh (queue, priority, xid, seq, run_at, id)
        SELECT queue, priority, xid, seq, run_at, id FROM stored""",
    State.SCHEDULED: """INSERT INTO {schema}.waiting (queue, priority, run_at, seq, id, task, version)
        SELECT queue, priority, run_at, seq, id, task, version FROM stored""",
}
TALLY = "INSERT INTO {schema}.tally (queue, state, jobs) VALUES ('default', 'completed', {count})"


class Filler:
    """Puts jobs into a store by SQL alone, in the way of its verbs, but a hundred times as fast."""

    def __init__(self, url: str, schema: str) -> None:
        self._own = psycopg.connect(**for_libpq(url), autocommit=True)
        self._schema = sql.Identifier(schema)

    def close(self) -> None:
        self._own.close()

    def fill(self, state: State, count: int) -> None:
        """Put in so many jobs that are in this state; what is scheduled is due in a week."""
        past = sql.SQL(PAST)
        ahead = 8 * 86_400_000_000 if state is State.SCHEDULED else 0
        place = sql.SQL(PLACES[state]).format(schema=self._schema, worker=WORKER)
        known = {"schema": self._schema, "past": past, "id": sql.SQL(ID).format(past=past), "place": place}
        self._own.execute(
            sql.SQL(FILL).format(
                **known, kind=state.value, count=count, ahead=ahead, at_once=AT_ONCE, payload=PAYLOAD
            )
        )
        if state is State.COMPLETED:
            self._own.execute(sql.SQL(TALLY).format(schema=self._schema, count=count))

    def settle(self) -> None:
        """Do what autovacuum does within a minute or two."""
        self._own.execute("VACUUM ANALYZE")


def claim_time(batches: Batches, limit: int) -> float:
    """Return the seconds of a claim of so many jobs, when as many more have just come."""
    batches.enqueue(limit)
    began = time.perf_counter()
    claims = batches.claim(limit)
    took = time.perf_counter() - began
    assert len(claims) == limit
    batches.finish(claims)
    return took


def test_many_jobs_kept(postgres_url, postgres_schema, shared_postgres, measured):
    """With millions of finished jobs and a million that wait, a claim takes little longer than with none."""
    with (
        closing(Batches(postgres_url)) as full,
        closing(Batches(with_query(shared_postgres, schema=f"{postgres_schema}_empty"))) as empty,
        closing(Filler(postgres_url, postgres_schema)) as filler,
    ):
        for batches in (full, empty):
            batches.pass_through(1)
        for state, count in ((State.COMPLETED, FINISHED), (State.READY, READY), (State.SCHEDULED, SCHEDULED)):
            filler.fill(state, count)
        filler.settle()
        # One after the other, so that whatever else this machine does slows down both.
        times = {
            limit: [(claim_time(full, limit), claim_time(empty, limit)) for _ in range(count)]
            for limit, count in CLAIMS.items()
        }
        counts = full.backend.run(count_states(full.backend.verbs))

    claimed = sum(limit * count for limit, count in CLAIMS.items())
    assert counts[State.COMPLETED] == FINISHED + 1 + claimed
    assert (counts[State.READY], counts[State.SCHEDULED]) == (READY, SCHEDULED)
    ratios = {}
    for limit, pairs in times.items():
        large, small = (median(column) for column in zip(*pairs, strict=True))
        ratios[limit] = large / small
        measured(
            f"a claim of {limit} with {FINISHED} finished and {READY + SCHEDULED} waiting jobs"
            f" {large * 1000:.2f} ms, in an empty store {small * 1000:.2f} ms: ratio {large / small:.2f}"
        )
    assert max(ratios.values()) <= ASKED or not PROVE
