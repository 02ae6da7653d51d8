-- How jobs come in. A job whose id is known already is left as it is. What is due on arrival is fresh; any other
-- waits, one with a time in the past too, which would be out of order among the fresh. All of a call is one
-- statement: its rows have one moment, and arrive in the order given.

-- part: plain
-- What plain jobs of one call have in common.
task text, version integer, queue text, priority integer, max_attempts integer

-- part: plain_columns
-- What is written of them.
id, task, version, queue, priority, run_at, max_attempts, created_at, payload

-- part: at_once
-- The moment, in the way that costs a short statement least.
(SELECT standfast.present(:now) AS now OFFSET 0) AS moment

-- part: arrived
-- What was stored is fresh.
INSERT INTO standfast.fresh (queue, priority, xid, seq, run_at, id)
SELECT queue, priority, xid, seq, run_at, id FROM stored

-- name: enqueue_one
-- takes: now bigint, id uuid, payload bytea, {plain}
-- Accept one plain job, due now.
WITH stored AS (
    INSERT INTO standfast.job ({plain_columns})
    SELECT :id, :task, :version, :queue, :priority, moment.now, :max_attempts, moment.now, :payload
    FROM {at_once}
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, xid, seq, run_at
)
{arrived};

-- name: enqueue
-- takes: now bigint, ids uuid[], payloads bytea[], {plain}
-- The same for several that are alike in everything but their payloads.
WITH stored AS (
    INSERT INTO standfast.job ({plain_columns})
    SELECT asked.id, :task, :version, :queue, :priority, moment.now, :max_attempts, moment.now, asked.payload
    FROM {at_once}
    CROSS JOIN unnest(:ids, :payloads) WITH ORDINALITY AS asked (id, payload, number)
    ORDER BY asked.number
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, xid, seq, run_at
)
{arrived};

-- name: enqueue_with_more
-- takes: now bigint, after uuid
-- takes: ids uuid[], tasks text[], versions integer[], queues text[], priorities integer[], max_attempts integer[]
-- takes: payloads bytea[], run_ats bigint[], delays bigint[], keys text[], keep_keys bigint[], start_withins bigint[]
-- takes: on_lates text[], tags text[], metadata text[]
-- Accept jobs with all that a job can have. Tags and metadata are JSON. Each key must be locked and free. All of
-- them wait for the end of the job `after`, if it is given. A row says that one of them was not known at least.
WITH {moment},
stored AS (
    INSERT INTO standfast.job (id, task, version, queue, priority, max_attempts, payload, run_at, created_at, key,
        keep_key, start_by, on_late, tags, metadata)
    SELECT asked.id, asked.task, asked.version, asked.queue, asked.priority, asked.max_attempts, asked.payload,
        coalesce(asked.run_at, moment.now + asked.delay), moment.now, asked.key, asked.keep_key,
        coalesce(asked.run_at, moment.now + asked.delay) + asked.start_within, asked.on_late,
        CASE WHEN asked.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(asked.tags::jsonb)) END,
        asked.metadata
    FROM moment CROSS JOIN unnest(
        :ids, :tasks, :versions, :queues, :priorities, :max_attempts, :payloads, :run_ats, :delays, :keys, :keep_keys,
        :start_withins, :on_lates, :tags, :metadata
    ) WITH ORDINALITY AS asked (id, task, version, queue, priority, max_attempts, payload, run_at, delay, key,
        keep_key, start_within, on_late, tags, metadata, number)
    ORDER BY asked.number
    ON CONFLICT (id) DO NOTHING
    RETURNING id, task, version, queue, priority, xid, seq, run_at, key, tags
),
arrived AS (
    {arrived} CROSS JOIN moment WHERE run_at = moment.now AND :after IS NULL
),
awaited AS (
    INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, blocked, reason, after)
    SELECT queue, priority, run_at, seq, id, task, version, :after IS NOT NULL,
        CASE WHEN :after IS NOT NULL THEN {replacing} END, :after
    FROM stored CROSS JOIN moment WHERE run_at <> moment.now OR :after IS NOT NULL
),
tagged AS (
    INSERT INTO standfast.tag (tag, id) SELECT DISTINCT unnest(tags), id FROM stored WHERE tags IS NOT NULL
),
given AS (
    INSERT INTO standfast.key (task, key, id) SELECT task, key, id FROM stored WHERE key IS NOT NULL
    ON CONFLICT (task, key) DO UPDATE SET id = excluded.id
)
SELECT FROM stored LIMIT 1;

-- name: known_jobs
-- takes: jobs uuid[]
-- Which of these jobs are there already.
SELECT id::text FROM standfast.job WHERE id = ANY (:jobs);
