-- Which levels there are: claims walk those that are noted here, and no others.

-- name: note_levels
-- takes: queues text[], priorities integer[]
-- See to it that these levels are there; tells which of them are there for good, whatever becomes of this
-- transaction.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:queues, :priorities) AS asked (queue, priority)
),
noted AS (
    INSERT INTO holdfast.level (queue, priority)
    SELECT asked.queue, asked.priority FROM asked
    WHERE NOT EXISTS (
        SELECT FROM holdfast.level WHERE level.queue = asked.queue AND level.priority = asked.priority
    )
)
SELECT asked.queue, asked.priority FROM asked
WHERE EXISTS (
    SELECT FROM holdfast.level
    WHERE level.queue = asked.queue AND level.priority = asked.priority AND level.xid <> pg_current_xact_id()
);

-- name: mend_levels
-- Make the levels that jobs have and that are not there: somebody emptied the table, while an enqueuer still
-- remembers what was in it. Each walk steps from one level to the next along an index.
WITH RECURSIVE of_fresh AS (
    (SELECT queue, priority FROM holdfast.fresh ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.priority FROM of_fresh CROSS JOIN LATERAL (
        SELECT fresh.queue, fresh.priority FROM holdfast.fresh AS fresh
        WHERE (fresh.queue, fresh.priority) > (of_fresh.queue, of_fresh.priority)
        ORDER BY fresh.queue, fresh.priority LIMIT 1
    ) AS beyond
),
of_waiting AS (
    (SELECT queue, alone, priority FROM holdfast.waiting WHERE NOT blocked ORDER BY queue, alone, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.alone, beyond.priority FROM of_waiting CROSS JOIN LATERAL (
        SELECT waiting.queue, waiting.alone, waiting.priority FROM holdfast.waiting AS waiting
        WHERE NOT waiting.blocked AND (waiting.queue, waiting.alone, waiting.priority)
            > (of_waiting.queue, of_waiting.alone, of_waiting.priority)
        ORDER BY waiting.queue, waiting.alone, waiting.priority LIMIT 1
    ) AS beyond
)
INSERT INTO holdfast.level (queue, priority)
SELECT queue, priority FROM (
    SELECT queue, priority FROM of_fresh UNION SELECT queue, priority FROM of_waiting
) AS used
WHERE NOT EXISTS (SELECT FROM holdfast.level WHERE level.queue = used.queue AND level.priority = used.priority);
