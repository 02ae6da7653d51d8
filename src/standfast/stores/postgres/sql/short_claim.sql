-- What most claims are, in a fraction of the time that it takes a server to set up `claim`.

-- name: claim_fresh
-- takes: now bigint, worker text, call bigint, queues text[], priorities integer[], marks text[]
-- takes: limit integer, signature text, look_ahead bigint, long_wait bigint
-- Give fresh jobs to the worker, of the levels that its process knows: queues and priorities in their order, with
-- their marks. Nothing else may have changed since it learned of them: the signature is still the same. And give
-- nothing if other jobs of theirs are due within `look_ahead`, or if jobs have waited for `long_wait` and more
-- urgent ones of their queue are due. The worker's row is locked only where there is something to give; if it is
-- gone by then, there is no row in the answer either.
--
-- The first row tells, as JSON, the time, xmin, whether all was as expected, which levels, by their places, had no
-- fresh jobs, and when the next job of them is due, or became due.
WITH asker AS MATERIALIZED (
    SELECT standfast.present(:now) AS now, pg_snapshot_xmin(pg_current_snapshot()) AS xmin
    FROM standfast.worker WHERE worker.id = :worker
),
level AS MATERIALIZED (
    SELECT level.*, fresh.run_at AS fresh_at, waiting.run_at AS waiting_at
    FROM (
        SELECT noted.place, noted.queue, noted.priority,
            {mark}
        FROM asker CROSS JOIN (
            SELECT queue, priority, mark::xid8 AS mark, place
            FROM unnest(:queues, :priorities, :marks) WITH ORDINALITY AS told (queue, priority, mark, place)
        ) AS noted
    ) AS level
    LEFT JOIN LATERAL (
        SELECT fresh.run_at FROM standfast.fresh AS fresh
        WHERE {fresh_of_level} LIMIT 1
    ) AS fresh ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM standfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND NOT waiting.alone
            AND waiting.priority = level.priority
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS waiting ON true
    ORDER BY level.place
),
mood AS MATERIALIZED (
    SELECT asker.now, asker.xmin, {signature} = :signature AND NOT EXISTS (
        SELECT FROM level WHERE waiting_at <= asker.now + :look_ahead
    ) AND NOT EXISTS (
        SELECT FROM level GROUP BY queue
        HAVING max(priority) FILTER (WHERE fresh_at <= asker.now)
            > min(priority) FILTER (WHERE fresh_at <= asker.now - :long_wait)
    ) AS calm, EXISTS (SELECT FROM level WHERE fresh_at IS NOT NULL) AS busy
    FROM asker
),
alive AS MATERIALIZED (
    SELECT FROM standfast.worker WHERE worker.id = :worker AND (SELECT calm AND busy FROM mood) FOR KEY SHARE
),
from_fresh AS (
    DELETE FROM standfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT due.ctid FROM alive CROSS JOIN level
        CROSS JOIN LATERAL (
            SELECT fresh.ctid FROM standfast.fresh AS fresh
            WHERE {fresh_of_level} LIMIT :limit FOR UPDATE SKIP LOCKED
        ) AS due
        LIMIT :limit
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.id, fresh.queue, fresh.priority, fresh.run_at, fresh.seq, fresh.xid
),
given AS (
    INSERT INTO standfast.claim (id, fence, worker, call, queue, priority, run_at, seq)
    SELECT id, 1, :worker, :call, queue, priority, run_at, seq FROM from_fresh
)
SELECT jsonb_build_array(
        mood.now, mood.xmin, mood.calm, ARRAY(SELECT place FROM level WHERE fresh_at IS NULL),
        least(
            (SELECT min(waiting_at) FROM level),
            CASE WHEN (SELECT count(*) FROM from_fresh) = :limit THEN (
                SELECT min(fresh.run_at) FROM level CROSS JOIN LATERAL (
                    SELECT fresh.run_at FROM standfast.fresh AS fresh
                    WHERE {fresh_of_level} LIMIT 1 OFFSET (
                        SELECT count(*) FROM from_fresh AS taken
                        WHERE taken.queue = level.queue AND taken.priority = level.priority
                    )
                ) AS fresh
            ) END
        )
    )::text,
    NULL::text, NULL::integer, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::integer, NULL::bytea,
    NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text
FROM mood WHERE EXISTS (SELECT FROM alive) OR NOT (calm AND busy)
UNION ALL
SELECT NULL, from_fresh.queue, from_fresh.priority, from_fresh.run_at, from_fresh.seq, from_fresh.xid::text,
    job.task, job.version, job.payload, job.max_attempts,
    CASE WHEN from_fresh.run_at <= job.start_by THEN job.start_by END, job.on_late, job.metadata, from_fresh.id::text
FROM from_fresh
CROSS JOIN LATERAL (SELECT * FROM standfast.job AS asked_for WHERE asked_for.id = from_fresh.id OFFSET 0) AS job;
