-- What clients write about jobs that are there, and about queues. Each act upon a job says by its count whether it
-- found the job where it was: workers and other clients act meanwhile.

-- name: ask_to_cancel
-- takes: job uuid
-- Leave word for the worker that has a job.
UPDATE holdfast.claim SET cancel_requested = true WHERE id = :job;

-- name: revive
-- takes: now bigint, job uuid
-- Make a dead job ready as if it were new; only its fence, its suspicion and its place in the order stay. Its level may
-- have been forgotten meanwhile.
WITH {moment},
was_dead AS (
    DELETE FROM holdfast.outcome WHERE id = :job AND state = {dead} RETURNING id, queue, fence, alone
),
counted AS (
    INSERT INTO holdfast.tally (queue, state, jobs) SELECT queue, {dead}, -1 FROM was_dead
),
its_level AS (
    INSERT INTO holdfast.level (queue, priority)
    SELECT job.queue, job.priority FROM was_dead JOIN holdfast.job AS job ON job.id = was_dead.id
    WHERE NOT EXISTS (
        SELECT FROM holdfast.level WHERE level.queue = job.queue AND level.priority = job.priority AND {is_unmarked}
    )
)
INSERT INTO holdfast.waiting (queue, priority, run_at, seq, id, task, version, fence, alone)
SELECT job.queue, job.priority, moment.now, job.seq, job.id, job.task, job.version, was_dead.fence, was_dead.alone
FROM was_dead JOIN holdfast.job AS job ON job.id = was_dead.id CROSS JOIN moment;

-- name: make_due
-- takes: now bigint, job uuid
-- Let a scheduled job run now, whatever it waited for.
WITH {moment}
UPDATE holdfast.waiting SET run_at = moment.now, reason = NULL FROM moment
WHERE id = :job AND NOT blocked AND run_at > moment.now;

-- name: reschedule
-- takes: job uuid, run_at bigint, reason text
-- Let a job that waits for its time, with this reason or NULL, be due at another. A fresh one becomes one that waits.
-- Tells so by a row.
WITH was_fresh AS (
    DELETE FROM holdfast.fresh AS fresh USING holdfast.job AS job
    WHERE job.id = :job AND fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    RETURNING fresh.queue, fresh.priority, :run_at, fresh.seq, fresh.id, job.task, job.version
), moved AS (
    INSERT INTO holdfast.waiting (queue, priority, run_at, seq, id, task, version) SELECT * FROM was_fresh
    RETURNING id
), changed AS (
    UPDATE holdfast.waiting SET run_at = :run_at
    WHERE id = :job AND NOT blocked AND reason IS NOT DISTINCT FROM :reason
    RETURNING id
)
SELECT true FROM moved UNION ALL SELECT true FROM changed;

-- name: discard
-- takes: now bigint, job uuid
-- End a dead job as cancelled.
WITH {moment},
ended AS (
    UPDATE holdfast.outcome SET state = {cancelled}, reason = {discarded}, finished_at = moment.now FROM moment
    WHERE id = :job AND state = {dead} RETURNING queue
)
INSERT INTO holdfast.tally (queue, state, jobs)
SELECT ended.queue, change.state, change.jobs
FROM ended CROSS JOIN (VALUES ({dead}, -1), ({cancelled}, 1)) AS change (state, jobs);

-- name: pause
-- takes: now bigint, queue text
-- Pause a queue; one that is paused keeps its time.
INSERT INTO holdfast.queue (name, paused_at) VALUES (:queue, holdfast.present(:now))
ON CONFLICT (name) DO NOTHING;

-- name: resume
-- takes: queue text
-- Undo a pause.
DELETE FROM holdfast.queue WHERE name = :queue;
