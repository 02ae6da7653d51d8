-- How jobs come in. $1 is the time, NULL for the server's. A job whose id is known already is left as it is. What is due
-- on arrival is fresh; any other waits, one with a time in the past too, which would be out of order among the fresh.
-- All of a call is one statement: its rows have one moment, and arrive in the order given.

-- name: enqueue_one
-- Accept job $2 with payload $3, due now: task $4, version $5, queue $6, priority $7, max_attempts $8.
WITH stored AS (
    INSERT INTO holdfast.job (id, task, version, queue, priority, run_at, max_attempts, created_at, payload)
    SELECT $2::uuid, $4::text, $5::integer, $6::text, $7::integer, moment.now, $8::integer, moment.now, $3::bytea
    FROM (SELECT holdfast.present($1::bigint) AS now OFFSET 0) AS moment
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, xid, seq, run_at
)
INSERT INTO holdfast.fresh (queue, priority, xid, seq, run_at, id)
SELECT queue, priority, xid, seq, run_at, id FROM stored;

-- name: enqueue
-- The same for jobs $2 with payloads $3 that are alike in everything else.
WITH stored AS (
    INSERT INTO holdfast.job (id, task, version, queue, priority, run_at, max_attempts, created_at, payload)
    SELECT asked.id, $4::text, $5::integer, $6::text, $7::integer, moment.now, $8::integer, moment.now, asked.payload
    FROM (SELECT holdfast.present($1::bigint) AS now OFFSET 0) AS moment
    CROSS JOIN unnest($2::uuid[], $3::bytea[]) WITH ORDINALITY AS asked (id, payload, number)
    ORDER BY asked.number
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, xid, seq, run_at
)
INSERT INTO holdfast.fresh (queue, priority, xid, seq, run_at, id)
SELECT queue, priority, xid, seq, run_at, id FROM stored;

-- name: enqueue_with_more
-- Accept jobs with all that a job can have: ids $2, tasks $3, versions $4, queues $5, priorities $6, max_attempts $7,
-- payloads $8, times $9 or else delays $10, keys $11, kept for $12, to start within $13, on_late $14, tags $15 and
-- metadata $16 (JSON). Each key must be locked and free. All of them wait for the end of job $17, if it is given.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now),
stored AS (
    INSERT INTO holdfast.job (id, task, version, queue, priority, max_attempts, payload, run_at, created_at, key,
        keep_key, start_by, on_late, tags, metadata)
    SELECT asked.id, asked.task, asked.version, asked.queue, asked.priority, asked.max_attempts, asked.payload,
        coalesce(asked.run_at, moment.now + asked.delay), moment.now, asked.key, asked.keep_key,
        coalesce(asked.run_at, moment.now + asked.delay) + asked.start_within, asked.on_late,
        CASE WHEN asked.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(asked.tags::jsonb)) END,
        asked.metadata
    FROM moment CROSS JOIN unnest(
        $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::integer[], $7::integer[], $8::bytea[], $9::bigint[],
        $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[]
    ) WITH ORDINALITY AS asked (id, task, version, queue, priority, max_attempts, payload, run_at, delay, key,
        keep_key, start_within, on_late, tags, metadata, number)
    ORDER BY asked.number
    ON CONFLICT (id) DO NOTHING
    RETURNING id, task, version, queue, priority, xid, seq, run_at, key, tags
),
arrived AS (
    INSERT INTO holdfast.fresh (queue, priority, xid, seq, run_at, id)
    SELECT queue, priority, xid, seq, run_at, id FROM stored CROSS JOIN moment
    WHERE run_at = moment.now AND $17::uuid IS NULL
),
awaited AS (
    INSERT INTO holdfast.waiting (queue, priority, run_at, seq, id, task, version, blocked, reason, after)
    SELECT queue, priority, run_at, seq, id, task, version, $17::uuid IS NOT NULL,
        CASE WHEN $17::uuid IS NOT NULL THEN {replacing} END, $17::uuid
    FROM stored CROSS JOIN moment WHERE run_at <> moment.now OR $17::uuid IS NOT NULL
),
tagged AS (
    INSERT INTO holdfast.tag (tag, id) SELECT DISTINCT unnest(tags), id FROM stored WHERE tags IS NOT NULL
),
given AS (
    INSERT INTO holdfast.key (task, key, id) SELECT task, key, id FROM stored WHERE key IS NOT NULL
    ON CONFLICT (task, key) DO UPDATE SET id = excluded.id
)
SELECT;

-- name: note_levels
-- See to it that the levels ($1, $2) are there; tells which of them are there for good, whatever becomes of this
-- transaction.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::integer[]) AS asked (queue, priority)
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

-- name: known_jobs
-- Which of the jobs $1 are there already.
SELECT id::text FROM holdfast.job WHERE id = ANY ($1::uuid[]);
