-- What people look at. A job that is stored as ready or scheduled is shown by its time: READY once that has come.
-- The casts are for what someone changed by hand: whatever the column holds, readers get bytes, and numbers.

-- part: number
-- How many claims a row of the history stands for.
CASE ended_by WHEN 'folded' THEN CAST(log AS INTEGER) ELSE 1 END

-- part: job_columns
-- All that is shown of a job.
job.id, job.task, CAST(job.version AS INTEGER), job.queue, CAST(job.priority AS INTEGER), job.state, job.reason,
    job.run_at, job.created_at, job.finished_at, job.fence, CAST(job.attempt AS INTEGER), CAST(job.crashes AS INTEGER),
    CAST(job.max_attempts AS INTEGER), job.alone, job.cancel_requested, job.worker,
    CAST(job.payload AS BLOB), CAST(job.result AS BLOB), job.error, job.progress_done, job.progress_total,
    job.progress_note, job.key, job.tags, job.metadata, job.start_by, job.on_late, job.after, job.result_until,
    CAST(job.keep_key AS INTEGER)

-- part: shown
-- The state in which a job is shown.
iif(job.state IN ({ready}, {scheduled}), iif(job.run_at <= :now, {ready}, {scheduled}), job.state)

-- part: page
-- What says which jobs a page shows: states, tags (arrays) and metadata (an object) are JSON; NULL is for any.
states, queue, task, before, after, now, limit, key, tags, metadata, error, worker

-- part: between
-- A job of an id before one and after another; each may be NULL.
job.id < coalesce(:before, char(1114111)) AND job.id > coalesce(:after, '')

-- part: wanted
-- A job that the page is about. It is of ids before the given one (NULL: from the newest on) and after the other
-- one, and of the error any part.
{between} AND (:queue IS NULL OR job.queue = :queue)
    AND (:task IS NULL OR job.task = :task)
    AND (:states IS NULL OR {shown} IN (SELECT value FROM json_each(:states)))
    AND (:key IS NULL OR job.key = :key)
    AND (:tags IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:tags) AS asked
        WHERE NOT EXISTS (SELECT 1 FROM standfast_tag AS tag WHERE tag.tag = asked.value AND tag.job = job.id)
    ))
    AND (:metadata IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) AS asked
        WHERE asked.value IS NOT (SELECT own.value FROM json_each(job.metadata) AS own WHERE own.key = asked.key)
    ))
    AND (:error IS NULL OR instr(casefold(job.error), casefold(:error)) > 0)
    AND (:worker IS NULL OR job.worker = :worker)

-- part: asked
-- What stands before it is among the states (JSON) that are asked for.
IN (SELECT value FROM json_each(:states))

-- part: stretch
-- What says of which jobs, and of how many of them, the end is looked for.
before, after, span

-- part: of_queues
-- A job of the queues (JSON; NULL for all).
(:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))

-- part: suspended
-- A scheduled job that has given its slot back on purpose, as core.memo says by its reason.
(coalesce(reason, '') = 'sleep' OR coalesce(reason, '') GLOB 'signal:*')

-- name: job
-- takes: job
-- One job.
SELECT {job_columns} FROM standfast_job AS job WHERE job.id = :job;

-- name: jobs
-- takes: {page}
-- A page of jobs, newest id first.
SELECT {job_columns} FROM standfast_job AS job WHERE {wanted} ORDER BY job.id DESC LIMIT :limit;

-- name: jobs_in_states
-- takes: {page}
-- The same page where no completed jobs are asked for: read from the indexes of the states, of which those of dead and
-- cancelled jobs are in order. The others are sorted, so they should be few; SQLite by itself would walk all jobs.
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_dead
WHERE job.state = {dead} AND {dead} {asked} AND {wanted}
UNION ALL
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_cancelled
WHERE job.state = {cancelled} AND {cancelled} {asked} AND {wanted}
UNION ALL
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_claims
WHERE job.state IN {claimed} AND ({held} {asked} OR {running} {asked}) AND {wanted}
UNION ALL
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_ready
WHERE job.state = {ready} AND ({ready} {asked} OR {scheduled} {asked}) AND {wanted}
UNION ALL
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_due
WHERE job.state = {scheduled} AND ({ready} {asked} OR {scheduled} {asked}) AND {wanted}
UNION ALL
SELECT {job_columns} FROM standfast_job AS job INDEXED BY standfast_blocked
WHERE job.state = {blocked} AND {blocked} {asked} AND {wanted}
ORDER BY 1 DESC LIMIT :limit;

-- name: waiting_up_to
-- takes: most
-- How many jobs wait, if they are not more than so many.
SELECT (SELECT count(*) FROM (SELECT 1 FROM standfast_job WHERE state = {ready} LIMIT :most))
    + (SELECT count(*) FROM (SELECT 1 FROM standfast_job WHERE state = {scheduled} LIMIT :most))
    + (SELECT count(*) FROM (SELECT 1 FROM standfast_job WHERE state = {blocked} LIMIT :most));

-- name: jobs_end
-- takes: {stretch}
-- Where a look at so many jobs ends: the last of them, and the one beyond it if there is one.
SELECT job.id FROM standfast_job AS job WHERE {between} ORDER BY job.id DESC LIMIT 2 OFFSET :span - 1;

-- name: keyed_jobs_end
-- takes: {stretch}, key
-- The same of the jobs of a key.
SELECT job.id FROM standfast_job AS job WHERE job.key = :key AND {between} ORDER BY job.id DESC LIMIT 2 OFFSET :span - 1;

-- name: tagged_jobs_end
-- takes: {stretch}, tag
-- The same of the jobs of a tag.
SELECT first.job FROM standfast_tag AS first
WHERE first.tag = :tag AND first.job < coalesce(:before, char(1114111)) AND first.job > coalesce(:after, '')
ORDER BY first.job DESC LIMIT 2 OFFSET :span - 1;

-- name: jobs_in_states_end
-- takes: {stretch}, states
-- The same of the jobs in states, completed ones not among them.
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_dead
WHERE job.state = {dead} AND {dead} {asked} AND {between}
UNION ALL
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_cancelled
WHERE job.state = {cancelled} AND {cancelled} {asked} AND {between}
UNION ALL
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_claims
WHERE job.state IN {claimed} AND ({held} {asked} OR {running} {asked}) AND {between}
UNION ALL
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_ready
WHERE job.state = {ready} AND ({ready} {asked} OR {scheduled} {asked}) AND {between}
UNION ALL
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_due
WHERE job.state = {scheduled} AND ({ready} {asked} OR {scheduled} {asked}) AND {between}
UNION ALL
SELECT job.id FROM standfast_job AS job INDEXED BY standfast_blocked
WHERE job.state = {blocked} AND {blocked} {asked} AND {between}
ORDER BY 1 DESC LIMIT 2 OFFSET :span - 1;

-- name: keyed_jobs
-- takes: {page}
-- The same page where a key is asked for.
SELECT {job_columns} FROM standfast_job AS job WHERE job.key = :key AND {wanted} ORDER BY job.id DESC LIMIT :limit;

-- name: tagged_jobs
-- takes: {page}
-- The same page where tags are asked for: a walk along the first of them.
SELECT {job_columns} FROM standfast_tag AS first CROSS JOIN standfast_job AS job ON job.id = first.job
WHERE first.tag = json_extract(:tags, '$[0]') AND first.job < coalesce(:before, char(1114111))
    AND first.job > coalesce(:after, '') AND {wanted}
ORDER BY first.job DESC LIMIT :limit;

-- name: glance
-- takes: jobs
-- The little that those who wait for jobs (JSON) look at again and again.
SELECT job.id, job.state, job.run_at, job.progress_done, job.progress_total, job.progress_note
FROM json_each(:jobs) AS asked CROSS JOIN standfast_job AS job ON job.id = asked.value;

-- name: attempts
-- takes: job, first, last
-- The claims of a job that ended otherwise than by plain completion; those between so many at the beginning and so
-- many at the end are counted by how they ended.
SELECT attempt.fence, attempt.worker, attempt.started_at, attempt.ended_at, how, attempt.error, traceback, log, 0
FROM standfast_job AS job JOIN standfast_attempt AS attempt ON attempt.job = job.seq
WHERE job.id = :job AND (attempt.fence <= :first OR attempt.fence > CAST(job.fence AS INTEGER) - :last)
UNION ALL
SELECT max(attempt.fence), '', min(attempt.started_at), max(attempt.ended_at), how, NULL, NULL, NULL, sum({number})
FROM standfast_job AS job JOIN standfast_attempt AS attempt ON attempt.job = job.seq
WHERE job.id = :job AND attempt.fence > :first AND attempt.fence <= CAST(job.fence AS INTEGER) - :last
GROUP BY how
ORDER BY 1;

-- name: last_claim
-- takes: job
-- The claim that lasts, or that completed the job: the job's own row is its history.
SELECT fence, worker, started_at, finished_at, state FROM standfast_job
WHERE id = :job AND (state IN {claimed} OR state = {completed});

-- name: queue_states
-- takes: now
-- How many jobs of each queue are in each state, but for completed ones, of which there is no index; and, with the state
-- NULL, how many there are in all. Ready jobs are counted in the order of their index: to group them by the state in which
-- they are shown would sort them, and take several times as long.
WITH waiting AS (
    SELECT queue, count(*) AS jobs, sum(run_at > :now) AS later FROM standfast_job WHERE state = {ready} GROUP BY queue
    UNION ALL
    SELECT queue, count(*), sum(run_at > :now) FROM standfast_job WHERE state = {scheduled} GROUP BY queue
)
SELECT queue, {ready}, jobs - later FROM waiting
UNION ALL
SELECT queue, {scheduled}, later FROM waiting
UNION ALL
SELECT job.queue, job.state, count(*) FROM standfast_job AS job WHERE job.state IN {claimed} GROUP BY 1, 2
UNION ALL
SELECT job.queue, {blocked}, count(*) FROM standfast_job AS job WHERE job.state = {blocked} GROUP BY 1
UNION ALL
SELECT job.queue, {dead}, count(*) FROM standfast_job AS job WHERE job.state = {dead} GROUP BY 1
UNION ALL
SELECT job.queue, {cancelled}, count(*) FROM standfast_job AS job WHERE job.state = {cancelled} GROUP BY 1
UNION ALL
SELECT queue, NULL, jobs FROM standfast_size;

-- name: paused_queues
-- Which queues are paused since when.
SELECT name, paused_at FROM standfast_queue;

-- name: queue_ages
-- takes: now
-- Since when the oldest due job that nobody has claimed is due, of each queue that has one. Jumps from queue to queue
-- and from priority to priority in the index of ready jobs. Those that are due and not ready yet are few, or there is
-- nobody who claims.
WITH RECURSIVE of_queue (queue) AS (
    SELECT min(queue) FROM standfast_job WHERE state = {ready}
    UNION ALL
    SELECT (SELECT min(queue) FROM standfast_job WHERE state = {ready} AND queue > of_queue.queue)
    FROM of_queue WHERE of_queue.queue IS NOT NULL
),
kind (alone) AS (
    SELECT 0
    UNION
    SELECT alone FROM standfast_job WHERE alone > 0 AND state IN ({ready}, {scheduled})
),
of_level (queue, alone, priority) AS (
    SELECT of_queue.queue, kind.alone, (
        SELECT max(priority) FROM standfast_job
        WHERE state = {ready} AND queue = of_queue.queue AND alone = kind.alone
    )
    FROM of_queue CROSS JOIN kind WHERE of_queue.queue IS NOT NULL
    UNION ALL
    SELECT of_level.queue, of_level.alone, (
        SELECT max(priority) FROM standfast_job
        WHERE state = {ready} AND queue = of_level.queue AND alone = of_level.alone AND priority < of_level.priority
    )
    FROM of_level WHERE of_level.priority IS NOT NULL
)
SELECT queue, min(run_at) FROM (
    SELECT of_level.queue, (
        SELECT min(run_at) FROM standfast_job
        WHERE state = {ready} AND queue = of_level.queue AND alone = of_level.alone AND priority = of_level.priority
    ) AS run_at
    FROM of_level WHERE of_level.priority IS NOT NULL
    UNION ALL
    SELECT queue, min(run_at) FROM standfast_job WHERE state = {scheduled} AND run_at <= :now GROUP BY queue
) WHERE run_at <= :now GROUP BY queue ORDER BY queue;

-- name: unknown_ages
-- takes: now, most
-- Of each task and payload version that no worker knew, by queue, since when the oldest job is due. Jumps from one to the
-- next in the index of blocked jobs as `piles` does, and looks at the first `most` of each.
WITH RECURSIVE first (seq) AS (
    SELECT (
        SELECT seq FROM standfast_job WHERE state = {blocked} AND reason = {no_worker} ORDER BY task, version LIMIT 1
    )
    UNION
    SELECT (
        SELECT later.seq FROM standfast_job AS later
        WHERE later.state = {blocked} AND later.reason = {no_worker}
            AND (later.task, later.version, later.queue) > (+job.task, +job.version, x'FFFFFFFFFFFFFFFF')
        ORDER BY later.task, later.version LIMIT 1
    )
    FROM first JOIN standfast_job AS job ON job.seq = first.seq
)
SELECT job.queue, job.task, job.version, min(job.run_at)
FROM first CROSS JOIN standfast_job AS kind ON kind.seq = first.seq
CROSS JOIN standfast_job AS job ON job.seq IN (
    SELECT seq FROM standfast_job
    WHERE state = {blocked} AND reason = {no_worker} AND task = kind.task AND version = kind.version LIMIT :most
)
WHERE job.run_at <= :now GROUP BY 1, 2, 3;

-- name: workers
-- Every registered worker, oldest first.
SELECT worker.id, worker.supervisor, worker.host, worker.pid, worker.lease, worker.queues, worker.concurrency,
    worker.started_at, coalesce(beat.beat_at, worker.boot_at), coalesce(beat.boot_id, worker.boot_id),
    coalesce(beat.condemned, 0),
    (SELECT count(*) FROM standfast_job AS job
     WHERE job.worker = worker.id AND job.state IN {claimed} AND job.state = {held}),
    (SELECT count(*) FROM standfast_job AS job
     WHERE job.worker = worker.id AND job.state IN {claimed} AND job.state = {running}),
    beat.vitals
FROM standfast_worker AS worker LEFT JOIN standfast_beat AS beat ON beat.worker = worker.id
WHERE worker.buried_at IS NULL ORDER BY worker.seq;

-- name: paused_at
-- takes: queue
-- Since when a queue is paused.
SELECT paused_at FROM standfast_queue WHERE name = :queue;

-- name: place
-- takes: job
-- Where a waiting job stands in its queue.
SELECT seq, queue, priority, run_at FROM standfast_job WHERE id = :job AND state IN {waiting};

-- name: ahead
-- takes: queue, priority, run_at, seq, now
-- How many due jobs of a queue go before this one.
SELECT (
    SELECT count(*) FROM standfast_job WHERE state = {ready} AND queue = :queue AND run_at <= :now
        AND (-priority, run_at, seq) < (-:priority, :run_at, :seq)
) + (
    SELECT count(*) FROM standfast_job WHERE state = {scheduled} AND queue = :queue AND run_at <= :now
        AND (-priority, run_at, seq) < (-:priority, :run_at, :seq)
);

-- name: unsettled
-- takes: queues, now
-- How many jobs of the queues a drain still waits for.
SELECT (
    SELECT count(*) FROM standfast_job WHERE state = {ready}
        AND queue NOT IN (SELECT name FROM standfast_queue) AND {of_queues}
) + (
    SELECT count(*) FROM standfast_job WHERE state = {scheduled}
        AND iif(run_at <= :now, queue NOT IN (SELECT name FROM standfast_queue), fence > 0 AND NOT {suspended})
        AND {of_queues}
) + (
    SELECT count(*) FROM standfast_job WHERE state IN {claimed} AND {of_queues}
);
