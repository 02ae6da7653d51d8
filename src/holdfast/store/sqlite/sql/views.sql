-- What people look at. A job that is stored as ready or scheduled is shown by its time: READY once that has come.
-- The casts are for what someone changed by hand: whatever the column holds, readers get bytes.

-- name: job
-- One job.
SELECT id, task, version, queue, priority, state, reason, until_at, run_at, created_at, finished_at, fence, attempt,
    crashes, max_attempts, alone, cancel_requested, worker, CAST(payload AS BLOB), CAST(result AS BLOB), error,
    progress_done, progress_total
FROM holdfast_job WHERE id = ?1;

-- name: jobs
-- A page of jobs, newest id first: of the states ?1 (JSON as shown; NULL for all), queue ?2, task ?3, before id ?4.
SELECT id, task, version, queue, priority, state, reason, until_at, run_at, created_at, finished_at, fence, attempt,
    crashes, max_attempts, alone, cancel_requested, worker, CAST(payload AS BLOB), CAST(result AS BLOB), error,
    progress_done, progress_total
FROM holdfast_job
WHERE (?4 IS NULL OR id < ?4) AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
    AND (?1 IS NULL OR iif(
        state IN ({ready}, {scheduled}), iif(run_at <= ?5, {ready}, {scheduled}), state
    ) IN (SELECT value FROM json_each(?1)))
ORDER BY id DESC LIMIT ?6;

-- name: dead_jobs
-- The same page where only dead jobs are asked for: read from their own small index.
SELECT id, task, version, queue, priority, state, reason, until_at, run_at, created_at, finished_at, fence, attempt,
    crashes, max_attempts, alone, cancel_requested, worker, CAST(payload AS BLOB), CAST(result AS BLOB), error,
    progress_done, progress_total
FROM holdfast_job
WHERE state = {dead} AND (?3 IS NULL OR id < ?3) AND (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR task = ?2)
ORDER BY id DESC LIMIT ?4;

-- name: attempts
-- The claims of a job that ended otherwise than by plain completion.
SELECT fence, worker, started_at, ended_at, how, error, traceback FROM holdfast_attempt
WHERE job = (SELECT seq FROM holdfast_job WHERE id = ?1) ORDER BY fence;

-- name: last_claim
-- The claim that lasts, or that completed the job: the job's own row is its history.
SELECT fence, worker, started_at, finished_at, state FROM holdfast_job
WHERE id = ?1 AND (state IN {claimed} OR state = {completed});

-- name: queue_states
-- How many jobs of each queue are in each state.
SELECT queue,
    iif(state IN ({ready}, {scheduled}), iif(run_at <= ?1, {ready}, {scheduled}), state) AS shown, count(*)
FROM holdfast_job GROUP BY queue, shown;

-- name: paused_queues
-- Which queues are paused since when.
SELECT name, paused_at FROM holdfast_queue;

-- name: states
-- How many jobs are in each state.
SELECT iif(state IN ({ready}, {scheduled}), iif(run_at <= ?1, {ready}, {scheduled}), state) AS shown, count(*)
FROM holdfast_job GROUP BY shown;

-- name: workers
-- Every registered worker, oldest first.
SELECT worker.id, worker.supervisor, worker.host, worker.pid, worker.lease, worker.queues, worker.concurrency,
    worker.started_at, coalesce(beat.beat_at, worker.boot_at), coalesce(beat.boot_id, worker.boot_id),
    coalesce(beat.condemned, 0),
    (SELECT count(*) FROM holdfast_job AS job
     WHERE job.worker = worker.id AND job.state IN {claimed} AND job.state = {held}),
    (SELECT count(*) FROM holdfast_job AS job
     WHERE job.worker = worker.id AND job.state IN {claimed} AND job.state = {running})
FROM holdfast_worker AS worker LEFT JOIN holdfast_beat AS beat ON beat.worker = worker.id
WHERE worker.buried_at IS NULL ORDER BY worker.seq;

-- name: paused_at
-- Since when a queue is paused.
SELECT paused_at FROM holdfast_queue WHERE name = ?1;

-- name: place
-- Where a waiting job stands in its queue.
SELECT seq, queue, priority, run_at FROM holdfast_job WHERE id = ?1 AND state IN {waiting};

-- name: ahead
-- How many due jobs of queue ?1 go before the one with priority ?2, run_at ?3 and seq ?4.
SELECT (
    SELECT count(*) FROM holdfast_job WHERE state = {ready} AND queue = ?1 AND run_at <= ?5
        AND (-priority, run_at, seq) < (-?2, ?3, ?4)
) + (
    SELECT count(*) FROM holdfast_job WHERE state = {scheduled} AND queue = ?1 AND run_at <= ?5
        AND (-priority, run_at, seq) < (-?2, ?3, ?4)
);

-- name: unsettled
-- How many jobs of the queues ?1 (JSON; NULL for all) a drain still waits for.
SELECT (
    SELECT count(*) FROM holdfast_job WHERE state = {ready}
        AND queue NOT IN (SELECT name FROM holdfast_queue)
        AND (?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))
) + (
    SELECT count(*) FROM holdfast_job WHERE state = {scheduled}
        AND iif(run_at <= ?2, queue NOT IN (SELECT name FROM holdfast_queue), fence > 0)
        AND (?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))
) + (
    SELECT count(*) FROM holdfast_job WHERE state IN {claimed}
        AND (?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))
);
