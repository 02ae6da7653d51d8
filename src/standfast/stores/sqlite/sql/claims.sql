-- How jobs come into a worker's hands. All of these run under the write lock of the jobs file. The casts are for what
-- someone changed by hand: a text that is no UTF-8 would fail the claim of every job beside it.
--
-- Lists are JSON. Queues are NULL for every queue; `alone` is the group of the suspects that are asked for, and 0 for
-- any other job.

-- part, where tasks are closed: closed_tasks
-- What statements take in addition: the closed tasks.
, closed_tasks

-- part, where tasks are closed: of_open_task
-- A job that is not of a closed task.
AND task NOT IN (SELECT value FROM json_each(:closed_tasks))

-- part: adoptable
-- The blocked jobs that wait for a worker which knows their task: those of one task, version, queue and group.
state = {blocked} AND reason = {no_worker} AND task = :task AND version = :version AND queue = :queue
    AND alone = :alone

-- part: first_due
-- The first due jobs of a queue.
SELECT seq FROM standfast_job
WHERE state = {ready} AND queue = :queue AND alone = :alone AND run_at <= :due_by {of_open_task}
ORDER BY priority DESC, run_at, seq LIMIT :limit

-- part: asked_for
-- A job in one of the queues asked for that is neither closed nor paused.
(:queues IS NULL OR job.queue IN (SELECT value FROM json_each(:queues)))
    AND job.queue NOT IN (SELECT value FROM json_each(:closed))
    AND job.queue NOT IN (SELECT name FROM standfast_queue)

-- part: soon
-- The jobs that are due after now and until the horizon, soonest first, but for those that wait for a signal: in a
-- worker's hand they would not hear it.
SELECT seq, priority, run_at FROM standfast_job AS job
WHERE state = {scheduled} AND run_at > :now AND run_at <= :horizon AND alone = 0 AND {asked_for}
    AND coalesce(substr(job.reason, 1, 7), '') <> 'signal:' {of_open_task}
ORDER BY run_at, priority DESC, seq LIMIT :limit

-- part: level
-- The levels of the queues that have ready jobs; `depth` is 0 for the highest of a queue. Jumps from priority to
-- priority in the index.
level (queue, priority, depth) AS (
    SELECT asked.value, (
        SELECT max(priority) FROM standfast_job WHERE state = {ready} AND queue = asked.value AND alone = :alone
    ), 0
    FROM json_each(:queues) AS asked
    UNION ALL
    SELECT level.queue, (
        SELECT max(priority) FROM standfast_job
        WHERE state = {ready} AND queue = level.queue AND alone = :alone AND priority < level.priority
    ), level.depth + 1
    FROM level WHERE level.priority IS NOT NULL
)

-- part: oldest_of_level
-- Since when the oldest ready job of a level is due.
SELECT run_at FROM standfast_job
WHERE state = {ready} AND queue = level.queue AND alone = :alone AND priority = level.priority {of_open_task}
ORDER BY run_at LIMIT 1

-- part: give
-- Give jobs to a worker.
UPDATE standfast_job
SET state = {held}, fence = fence + 1, worker = :worker, call = :call, started_at = NULL, reason = NULL

-- part: claim_columns
-- What a worker learns of a job; first of all what decides who goes first, as rows come in no particular order. A
-- job that was tried, or whose time was moved past its limit, cannot be late any more.
-priority, run_at, seq, id, fence, task, CAST(version AS INTEGER), CAST(payload AS BLOB), queue,
    CAST(attempt AS INTEGER), CAST(crashes AS INTEGER), CAST(max_attempts AS INTEGER),
    iif(attempt = 0 AND run_at <= start_by, start_by, NULL), on_late, metadata

-- name: promote
-- takes: now, limit
-- Make scheduled jobs ready whose time has come: oldest first, so many at once at most.
UPDATE standfast_job SET state = {ready}
WHERE seq IN (SELECT seq FROM standfast_job WHERE state = {scheduled} AND run_at <= :now ORDER BY run_at LIMIT :limit);

-- name: worker_exists
-- takes: worker
-- Tell whether a worker is registered and not buried.
SELECT count(*) FROM standfast_worker WHERE id = :worker AND buried_at IS NULL;

-- name: asked_queues
-- takes: queues
-- Those of the queues that are not paused, in that order.
SELECT value FROM json_each(:queues) WHERE value NOT IN (SELECT name FROM standfast_queue) ORDER BY key;

-- name: every_queue
-- Queues with something ready, not paused, by name. Jumps from queue to queue in the index of ready jobs instead of
-- walking them.
WITH RECURSIVE ready (queue) AS (
    SELECT min(queue) FROM standfast_job WHERE state = {ready}
    UNION ALL
    SELECT (SELECT min(queue) FROM standfast_job WHERE state = {ready} AND queue > ready.queue)
    FROM ready WHERE ready.queue IS NOT NULL
)
SELECT queue FROM ready WHERE queue IS NOT NULL AND queue NOT IN (SELECT name FROM standfast_queue) ORDER BY 1;

-- name: piles
-- takes: known, queues, closed, limit
-- Where blocked jobs wait for a worker which knows their task, as the one that asks does: `known` are pairs of name and
-- newest version. One row for each task, version, queue, group and priority. Jumps from one to the next in the index
-- instead of walking the jobs. SQLite begins at what is equal to a row, which nothing is that
-- ends in those bytes; and without the plus signs it would look for the next task only, and walk the rest.
WITH RECURSIVE pile (seq) AS (
    SELECT (
        SELECT seq FROM standfast_job WHERE state = {blocked} AND reason = {no_worker}
        ORDER BY task, version, queue, alone, priority LIMIT 1
    )
    UNION
    SELECT (
        SELECT next.seq FROM standfast_job AS next
        WHERE next.state = {blocked} AND next.reason = {no_worker}
            AND (next.task, next.version, next.queue, next.alone, next.priority, next.run_at)
                > (+job.task, +job.version, +job.queue, +job.alone, +job.priority, x'FFFFFFFFFFFFFFFF')
        ORDER BY next.task, next.version, next.queue, next.alone, next.priority LIMIT 1
    )
    FROM pile CROSS JOIN standfast_job AS job ON job.seq = pile.seq
)
SELECT job.queue, job.alone, job.priority, job.task, job.version
FROM pile CROSS JOIN standfast_job AS job ON job.seq = pile.seq
WHERE {asked_for} AND EXISTS (
    SELECT 1 FROM json_each(:known) AS known
    WHERE json_extract(known.value, '$[0]') = job.task AND json_extract(known.value, '$[1]') >= job.version
)
LIMIT :limit;

-- name: adoptable_jobs
-- takes: queue, alone, priority, task, version, after, until, limit
-- The first jobs of a pile that are due after a time and until another.
SELECT seq, priority, run_at FROM standfast_job
WHERE {adoptable} AND priority = :priority AND run_at > :after AND run_at <= :until
ORDER BY run_at, seq LIMIT :limit;

-- name: unblock_suspects
-- takes: now, queue, alone, task, version
-- Let the suspects of a pile wait for a child of their own.
UPDATE standfast_job
SET state = CASE WHEN run_at <= :now THEN {ready} ELSE {scheduled} END, reason = NULL
WHERE {adoptable};

-- name: block_unknown
-- takes: queue, alone, due_by, look, unknown
-- Of the first due jobs of a queue, so many, put those aside that the worker does not know: `unknown` are pairs of
-- name and oldest version.
UPDATE standfast_job SET state = {blocked}, reason = {no_worker}
WHERE seq IN (
    SELECT first.seq FROM (
        SELECT seq, task, version FROM standfast_job
        WHERE state = {ready} AND queue = :queue AND alone = :alone AND run_at <= :due_by
        ORDER BY priority DESC, run_at, seq LIMIT :look
    ) AS first
    WHERE EXISTS (
        SELECT 1 FROM json_each(:unknown) AS unknown
        WHERE json_extract(unknown.value, '$[0]') = first.task AND json_extract(unknown.value, '$[1]') <= first.version
    )
);

-- name: claim_due
-- takes: worker, call, queue, alone, due_by, limit {closed_tasks}
-- Give the first due jobs of a queue to a worker.
{give}
WHERE seq IN ({first_due})
RETURNING {claim_columns};

-- name: long_waits
-- takes: queues, alone, due_by {closed_tasks}
-- The levels of the queues whose oldest ready job was due by a time, lowest priority first.
WITH RECURSIVE {level}
SELECT queue, priority, depth FROM level
WHERE priority IS NOT NULL AND :due_by >= (
    {oldest_of_level}
)
ORDER BY priority;

-- name: first_due_jobs
-- takes: queue, alone, due_by, limit {closed_tasks}
-- The same jobs that `claim_due` gives, not yet given to anyone.
SELECT seq, priority, run_at FROM standfast_job WHERE seq IN ({first_due});

-- name: oldest_due_jobs
-- takes: queue, alone, due_by, limit, priority {closed_tasks}
-- The first jobs of a priority in a queue that were due by a time.
SELECT seq, priority, run_at FROM standfast_job
WHERE state = {ready} AND queue = :queue AND alone = :alone AND priority = :priority AND run_at <= :due_by
    {of_open_task}
ORDER BY run_at, seq LIMIT :limit;

-- name: claim_chosen
-- takes: worker, call, chosen
-- Give the jobs, each by its seq, to a worker.
{give}
WHERE seq IN (SELECT value FROM json_each(:chosen))
RETURNING {claim_columns};

-- name: claim_ahead
-- takes: worker, call, now, horizon, queues, limit, closed {closed_tasks}
-- Give jobs due after now and until the horizon to a worker, soonest first.
{give}
WHERE seq IN (SELECT seq FROM ({soon}))
RETURNING {claim_columns};

-- name: jobs_ahead
-- takes: now, horizon, queues, limit, closed {closed_tasks}
-- The same jobs, not yet given to anyone.
{soon};

-- name: next_ready
-- takes: queues, alone {closed_tasks}
-- The earliest run_at among the ready jobs of the queues.
WITH RECURSIVE {level}
SELECT min((
    {oldest_of_level}
))
FROM level WHERE level.priority IS NOT NULL;

-- name: next_scheduled
-- takes: queues, alone, closed {closed_tasks}
-- The earliest run_at among the scheduled jobs of the queues.
SELECT run_at FROM standfast_job AS job
WHERE state = {scheduled} AND alone = :alone AND {asked_for} {of_open_task}
ORDER BY run_at LIMIT 1;

-- name: last_arrival
-- Which job came last: who waits for work looks at it after a commit for which nobody rang.
SELECT coalesce(max(seq), 0) FROM standfast_job;

-- name: odd_queues
-- The names of queues in which jobs wait, as bytes.
SELECT DISTINCT CAST(queue AS BLOB) FROM standfast_job WHERE state IN ({ready}, {scheduled});

-- name: unearth
-- takes: queues, now
-- Let waiting jobs be claimed whose time or queue is none: those of the queues (JSON of hexadecimal texts) as well. That
-- they cannot be read is seen by `on_late`, and costs them their life.
UPDATE standfast_job
SET on_late = 'its queue or its time is damaged', alone = 0, run_at = :now, state = {ready},
    queue = iif(typeof(queue) = 'text' AND hex(queue) NOT IN (SELECT value FROM json_each(:queues)), queue, 'default')
WHERE state IN ({ready}, {scheduled}) AND (
    typeof(run_at) IN ('text', 'blob') OR typeof(queue) <> 'text'
    OR hex(queue) IN (SELECT value FROM json_each(:queues))
);
