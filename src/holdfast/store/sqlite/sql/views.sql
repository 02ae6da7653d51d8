-- What people look at. A job that is stored as ready or scheduled is shown by its time: READY once that has come.
-- The casts are for what someone changed by hand: whatever the column holds, readers get bytes.

-- part: job_columns
-- All that is shown of a job.
job.id, job.task, job.version, job.queue, job.priority, job.state, job.reason, job.until_at, job.run_at, job.created_at,
    job.finished_at, job.fence, job.attempt, job.crashes, job.max_attempts, job.alone, job.cancel_requested, job.worker,
    CAST(job.payload AS BLOB), CAST(job.result AS BLOB), job.error, job.progress_done, job.progress_total, job.key,
    job.tags, job.metadata, job.start_by, job.on_late, job.after, job.result_until

-- part: wanted
-- What a page is about: the states ?1 (JSON, as shown at the time ?5), queue ?2, task ?3, key ?7, tags ?8 (JSON array),
-- metadata ?9 (JSON object) and a part of the error ?10; NULL for any. Of ids before ?4 (NULL: from the newest on).
job.id < coalesce(?4, char(1114111)) AND (?2 IS NULL OR job.queue = ?2) AND (?3 IS NULL OR job.task = ?3)
    AND (?1 IS NULL OR iif(
        job.state IN ({ready}, {scheduled}), iif(job.run_at <= ?5, {ready}, {scheduled}), job.state
    ) IN (SELECT value FROM json_each(?1)))
    AND (?7 IS NULL OR job.key = ?7)
    AND (?8 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?8) AS asked
        WHERE NOT EXISTS (SELECT 1 FROM holdfast_tag AS tag WHERE tag.tag = asked.value AND tag.job = job.id)
    ))
    AND (?9 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?9) AS asked
        WHERE asked.value IS NOT (SELECT own.value FROM json_each(job.metadata) AS own WHERE own.key = asked.key)
    ))
    AND (?10 IS NULL OR instr(casefold(job.error), casefold(?10)) > 0)

-- name: job
-- One job.
SELECT {job_columns} FROM holdfast_job AS job WHERE job.id = ?1;

-- name: jobs
-- A page of ?6 jobs, newest id first.
SELECT {job_columns} FROM holdfast_job AS job WHERE {wanted} ORDER BY job.id DESC LIMIT ?6;

-- name: dead_jobs
-- The same page where only dead jobs are asked for: read from their own small index.
SELECT {job_columns} FROM holdfast_job AS job WHERE job.state = {dead} AND {wanted} ORDER BY job.id DESC LIMIT ?6;

-- name: keyed_jobs
-- The same page where a key is asked for.
SELECT {job_columns} FROM holdfast_job AS job WHERE job.key = ?7 AND {wanted} ORDER BY job.id DESC LIMIT ?6;

-- name: tagged_jobs
-- The same page where tags are asked for: a walk along the first of them.
SELECT {job_columns} FROM holdfast_tag AS first CROSS JOIN holdfast_job AS job ON job.id = first.job
WHERE first.tag = json_extract(?8, '$[0]') AND first.job < coalesce(?4, char(1114111)) AND {wanted}
ORDER BY first.job DESC LIMIT ?6;

-- name: glance
-- The little that those who wait for the jobs ?1 (JSON) look at again and again.
SELECT job.id, job.state, job.run_at, job.progress_done, job.progress_total
FROM json_each(?1) AS asked CROSS JOIN holdfast_job AS job ON job.id = asked.value;

-- name: attempts
-- The claims of a job that ended otherwise than by plain completion.
SELECT fence, worker, started_at, ended_at, how, error, traceback, log FROM holdfast_attempt
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
