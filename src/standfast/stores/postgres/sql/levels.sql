-- Which levels there are: claims walk those that are noted here, and no others. rows.py argues why those that are not
-- used any more may be forgotten while others enqueue and claim.
--
-- The column xid says what a row is. Below 2^61 it is the transaction that inserted it. From 2^62 on the row is marked,
-- since the second that follows. In between it is marked and has waited, until the transaction that follows.

-- part: with_jobs
-- The levels of jobs that are fresh, or wait and are not blocked. Each walk steps from one to the next along an index.
of_fresh AS (
    (SELECT queue, priority FROM standfast.fresh ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.priority FROM of_fresh CROSS JOIN LATERAL (
        SELECT fresh.queue, fresh.priority FROM standfast.fresh AS fresh
        WHERE (fresh.queue, fresh.priority) > (of_fresh.queue, of_fresh.priority)
        ORDER BY fresh.queue, fresh.priority LIMIT 1
    ) AS beyond
),
of_waiting AS (
    (SELECT queue, alone, priority FROM standfast.waiting WHERE NOT blocked ORDER BY queue, alone, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.alone, beyond.priority FROM of_waiting CROSS JOIN LATERAL (
        SELECT waiting.queue, waiting.alone, waiting.priority FROM standfast.waiting AS waiting
        WHERE NOT waiting.blocked AND (waiting.queue, waiting.alone, waiting.priority)
            > (of_waiting.queue, of_waiting.alone, of_waiting.priority)
        ORDER BY waiting.queue, waiting.alone, waiting.priority LIMIT 1
    ) AS beyond
)

-- name: note_levels
-- takes: queues text[], priorities integer[]
-- See to it that these levels are there and not marked; tells which of them are, whatever becomes of this transaction.
-- One that may look at an old snapshot relies on nothing that it sees there.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:queues, :priorities) AS asked (queue, priority)
),
found AS MATERIALIZED (
    SELECT asked.queue, asked.priority, seen.is_own FROM asked CROSS JOIN LATERAL (
        SELECT level.xid = pg_current_xact_id() AS is_own FROM standfast.level
        WHERE level.queue = asked.queue AND level.priority = asked.priority AND {is_unmarked}
        ORDER BY is_own LIMIT 1
    ) AS seen
    WHERE current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
),
noted AS (
    INSERT INTO standfast.level (queue, priority)
    SELECT asked.queue, asked.priority FROM asked
    WHERE (asked.queue, asked.priority) NOT IN (SELECT queue, priority FROM found)
)
SELECT queue, priority FROM found WHERE NOT is_own;

-- name: mend_levels
-- Make the levels that jobs have and that are not there: somebody emptied the table, while an enqueuer still
-- remembers what was in it.
WITH RECURSIVE {with_jobs}
INSERT INTO standfast.level (queue, priority)
SELECT queue, priority FROM (
    SELECT queue, priority FROM of_fresh UNION SELECT queue, priority FROM of_waiting
) AS used
WHERE NOT EXISTS (SELECT FROM standfast.level WHERE level.queue = used.queue AND level.priority = used.priority);

-- name: forget_levels
-- takes: now bigint, most bigint, pause bigint
-- Where there are more than `most` rows: mark those of levels that no job needs, and those that are there twice. Let
-- each wait for `pause`, then for all transactions that had begun by then, and forget it if it is still not needed.
-- Claims walk a marked level as any other. Two who do this at once take different rows.
WITH RECURSIVE {moment}, {with_jobs},
many AS MATERIALIZED (
    SELECT count(*) > :most AS they_are FROM (SELECT FROM standfast.level LIMIT :most + 1) AS first_ones
),
used AS MATERIALIZED (
    SELECT queue, priority FROM of_fresh UNION SELECT queue, priority FROM of_waiting
    UNION SELECT queue, priority FROM standfast.waiting WHERE blocked
    UNION SELECT queue, priority FROM standfast.claim
),
spare AS MATERIALIZED (
    SELECT row, xid::text::bigint AS xid, is_unmarked FROM (
        SELECT level.ctid AS row, level.xid, {is_unmarked} AS is_unmarked, used.queue IS NULL AS is_unused,
            row_number() OVER (PARTITION BY level.queue, level.priority ORDER BY {is_unmarked} DESC, level.xid) > 1
                AND bool_or({is_unmarked}) OVER (PARTITION BY level.queue, level.priority) AS is_double
        FROM standfast.level LEFT JOIN used ON used.queue = level.queue AND used.priority = level.priority
        WHERE (SELECT they_are FROM many)
    ) AS judged
    WHERE is_unused OR is_double
),
over AS MATERIALIZED (
    SELECT row FROM spare
    WHERE xid < 1::bigint << 62 AND NOT is_unmarked
        AND xid - (1::bigint << 61) <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
),
next AS MATERIALIZED (
    SELECT row, ((1::bigint << 62) + moment.now / 1000000)::text::xid8 AS xid FROM spare CROSS JOIN moment
    WHERE is_unmarked
    UNION ALL
    SELECT row, ((1::bigint << 61) + pg_current_xact_id()::text::bigint)::text::xid8 FROM spare CROSS JOIN moment
    WHERE xid >= 1::bigint << 62 AND moment.now >= (xid - (1::bigint << 62)) * 1000000 + :pause
),
locked AS MATERIALIZED (
    SELECT level.ctid AS row FROM standfast.level
    WHERE level.ctid = ANY (ARRAY(SELECT row FROM over UNION ALL SELECT row FROM next))
    FOR UPDATE SKIP LOCKED
),
marked AS (
    UPDATE standfast.level SET xid = next.xid FROM next JOIN locked ON locked.row = next.row WHERE level.ctid = next.row
)
DELETE FROM standfast.level USING over JOIN locked ON locked.row = over.row WHERE level.ctid = over.row;
