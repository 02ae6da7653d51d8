-- What clients write about jobs that are there, and about queues. Each act upon a job says by its count whether it
-- found the job where it was: workers and other clients act meanwhile.

-- name: ask_to_cancel
-- takes: job uuid
-- Leave word for the worker that has a job.
UPDATE standfast.claim SET cancel_requested = true WHERE id = :job;

-- name: revive
-- takes: now bigint, job uuid
-- Make a dead job ready as if it were new; only its fence, its suspicion and its place in the order stay. Its level may
-- have been forgotten meanwhile.
WITH {moment},
was_dead AS (
    DELETE FROM standfast.outcome WHERE id = :job AND state = {dead} RETURNING id, queue, fence, alone
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, {dead}, -1 FROM was_dead
),
its_level AS (
    INSERT INTO standfast.level (queue, priority)
    SELECT job.queue, job.priority FROM was_dead JOIN standfast.job AS job ON job.id = was_dead.id
    WHERE NOT EXISTS (
        SELECT FROM standfast.level WHERE level.queue = job.queue AND level.priority = job.priority AND {is_unmarked}
    )
)
INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, fence, alone)
SELECT job.queue, job.priority, moment.now, job.seq, job.id, job.task, job.version, was_dead.fence, was_dead.alone
FROM was_dead JOIN standfast.job AS job ON job.id = was_dead.id CROSS JOIN moment;

-- name: make_due
-- takes: now bigint, job uuid
-- Let a scheduled job run now, whatever it waited for.
WITH {moment}
UPDATE standfast.waiting SET run_at = moment.now, reason = NULL FROM moment
WHERE id = :job AND NOT blocked AND run_at > moment.now;

-- name: reschedule
-- takes: job uuid, run_at bigint, reason text
-- Let a job that waits for its time, with this reason or NULL, be due at another. A fresh one becomes one that waits.
-- Tells so by a row.
WITH was_fresh AS (
    DELETE FROM standfast.fresh AS fresh USING standfast.job AS job
    WHERE job.id = :job AND fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    RETURNING fresh.queue, fresh.priority, :run_at, fresh.seq, fresh.id, job.task, job.version
), moved AS (
    INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version) SELECT * FROM was_fresh
    RETURNING id
), changed AS (
    UPDATE standfast.waiting SET run_at = :run_at
    WHERE id = :job AND NOT blocked AND reason IS NOT DISTINCT FROM :reason
    RETURNING id
)
SELECT true FROM moved UNION ALL SELECT true FROM changed;

-- name: discard
-- takes: now bigint, job uuid
-- End a dead job as cancelled.
WITH {moment},
ended AS (
    UPDATE standfast.outcome SET state = {cancelled}, reason = {discarded}, finished_at = moment.now FROM moment
    WHERE id = :job AND state = {dead} RETURNING queue
)
INSERT INTO standfast.tally (queue, state, jobs)
SELECT ended.queue, change.state, change.jobs
FROM ended CROSS JOIN (VALUES ({dead}, -1), ({cancelled}, 1)) AS change (state, jobs);

-- name: dead_with_keys
-- takes: jobs uuid[]
-- The dead ones of some jobs that came with a key.
SELECT job.id::text, job.task, job.key FROM standfast.job AS job JOIN standfast.outcome AS outcome ON outcome.id = job.id
WHERE job.id = ANY (:jobs) AND outcome.state = {dead} AND job.key IS NOT NULL ORDER BY job.id;

-- name: revive_many
-- takes: now bigint, jobs uuid[]
-- Make dead jobs ready that have no key, or to which it was given before. What another one has locked is passed over,
-- here and in the other statements about many jobs: so nobody waits for another in a circle. Their levels may have been
-- forgotten meanwhile.
WITH {moment},
meant AS MATERIALIZED (
    SELECT outcome.id FROM standfast.outcome AS outcome JOIN standfast.job AS job ON job.id = outcome.id
    WHERE outcome.id = ANY (:jobs) AND outcome.state = {dead} AND (job.key IS NULL OR job.id = (
        SELECT taken.id FROM standfast.key AS taken WHERE taken.task = job.task AND taken.key = job.key
    ))
    FOR UPDATE OF outcome SKIP LOCKED
),
was_dead AS (
    DELETE FROM standfast.outcome WHERE id = ANY (ARRAY(SELECT id FROM meant)) RETURNING id, queue, fence, alone
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, {dead}, -count(*) FROM was_dead GROUP BY queue
),
their_levels AS (
    INSERT INTO standfast.level (queue, priority)
    SELECT DISTINCT job.queue, job.priority FROM was_dead JOIN standfast.job AS job ON job.id = was_dead.id
    WHERE NOT EXISTS (
        SELECT FROM standfast.level WHERE level.queue = job.queue AND level.priority = job.priority AND {is_unmarked}
    )
)
INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, fence, alone)
SELECT job.queue, job.priority, moment.now, job.seq, job.id, job.task, job.version, was_dead.fence, was_dead.alone
FROM moment CROSS JOIN was_dead CROSS JOIN LATERAL (
    SELECT * FROM standfast.job AS asked_for WHERE asked_for.id = was_dead.id OFFSET 0
) AS job
RETURNING id::text;

-- name: make_many_due
-- takes: now bigint, jobs uuid[]
-- Let scheduled jobs run now, whatever they waited for.
WITH {moment}
UPDATE standfast.waiting AS waiting SET run_at = moment.now, reason = NULL FROM moment
WHERE waiting.id = ANY (ARRAY(
    SELECT id FROM standfast.waiting
    WHERE id = ANY (:jobs) AND NOT blocked AND run_at > (SELECT now FROM moment) FOR UPDATE SKIP LOCKED
))
RETURNING waiting.id::text;

-- name: ask_many_to_cancel
-- takes: now bigint, jobs uuid[]
-- Leave word for the workers that have the jobs, whatever the time.
UPDATE standfast.claim SET cancel_requested = true
WHERE :now IS DISTINCT FROM 0 AND id = ANY (ARRAY(
    SELECT id FROM standfast.claim WHERE id = ANY (:jobs) FOR UPDATE SKIP LOCKED
))
RETURNING id::text;

-- name: discard_many
-- takes: now bigint, jobs uuid[]
-- End dead jobs as cancelled.
WITH {moment},
ended AS (
    UPDATE standfast.outcome AS outcome SET state = {cancelled}, reason = {discarded}, finished_at = moment.now FROM moment
    WHERE outcome.id = ANY (ARRAY(
        SELECT id FROM standfast.outcome WHERE id = ANY (:jobs) AND state = {dead} FOR UPDATE SKIP LOCKED
    ))
    RETURNING outcome.id, outcome.queue
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs)
    SELECT ended.queue, change.state, change.jobs * count(*)
    FROM ended CROSS JOIN (VALUES ({dead}, -1), ({cancelled}, 1)) AS change (state, jobs)
    GROUP BY ended.queue, change.state, change.jobs
)
SELECT id::text FROM ended;

-- name: reschedule_many
-- takes: now bigint, jobs uuid[], run_at bigint
-- Let jobs that wait for their time be due at another, whatever the time is now, but for those that have given their slot
-- back on purpose.
WITH was_fresh AS (
    DELETE FROM standfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT fresh.ctid FROM standfast.job AS job
        JOIN standfast.fresh AS fresh ON fresh.queue = job.queue AND fresh.priority = job.priority
            AND fresh.xid = job.xid AND fresh.seq = job.seq
        WHERE job.id = ANY (:jobs) AND :now IS DISTINCT FROM 0
        FOR UPDATE OF fresh SKIP LOCKED
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.queue, fresh.priority, fresh.seq, fresh.id
),
moved AS (
    INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version)
    SELECT was_fresh.queue, was_fresh.priority, :run_at, was_fresh.seq, job.id, job.task, job.version
    FROM was_fresh CROSS JOIN LATERAL (
        SELECT * FROM standfast.job AS asked_for WHERE asked_for.id = was_fresh.id OFFSET 0
    ) AS job
    RETURNING id
),
changed AS (
    UPDATE standfast.waiting SET run_at = :run_at
    WHERE id = ANY (ARRAY(
        SELECT id FROM standfast.waiting
        WHERE id = ANY (:jobs) AND NOT blocked AND coalesce(reason, '') <> 'sleep'
            AND coalesce(left(reason, 7), '') <> 'signal:'
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
)
SELECT id::text FROM moved UNION ALL SELECT id::text FROM changed;

-- name: pause
-- takes: now bigint, queue text
-- Pause a queue; one that is paused keeps its time.
INSERT INTO standfast.queue (name, paused_at) VALUES (:queue, standfast.present(:now))
ON CONFLICT (name) DO NOTHING;

-- name: resume
-- takes: queue text
-- Undo a pause.
DELETE FROM standfast.queue WHERE name = :queue;
