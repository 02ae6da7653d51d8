-- How jobs come into a worker's hands. All of these run under the write lock of the jobs file. CROSS JOIN is how
-- SQLite is told to look up the few known tasks among the blocked jobs, and not the other way round. The casts are for
-- what someone changed by hand: a text that is no UTF-8 would fail the claim of every job beside it.

-- part: adoptable
-- Blocked jobs that wait for a worker which knows their task, as the one that asks does (?7, JSON pairs of task and
-- version): in queue ?3, suspects or not (?4), due by ?5.
SELECT job.seq, job.priority, job.run_at FROM json_each(?7) AS known
CROSS JOIN holdfast_job AS job
    ON job.state = {blocked} AND job.reason = {no_worker} AND job.task = json_extract(known.value, '$[0]')
    AND job.version <= json_extract(known.value, '$[1]')
WHERE job.queue = ?3 AND job.alone = ?4 AND job.run_at <= ?5

-- part: first_due
-- The first ?6 due jobs of queue ?3: ready ones and adoptable ones.
SELECT seq FROM (
    SELECT * FROM (
        SELECT seq, priority, run_at FROM holdfast_job
        WHERE state = {ready} AND queue = ?3 AND alone = ?4 AND run_at <= ?5
        ORDER BY priority DESC, run_at, seq LIMIT ?6
    )
    UNION
    {adoptable}
)
ORDER BY priority DESC, run_at, seq LIMIT ?6

-- part: claim_columns
-- What a worker learns of a job; first of all what decides who goes first, as rows come in no particular order. A job
-- that was tried, or whose time was moved past its limit, cannot be late any more.
-priority, run_at, seq, id, fence, task, version, CAST(payload AS BLOB), queue, attempt, crashes, max_attempts,
    iif(attempt = 0 AND run_at <= start_by, start_by, NULL), on_late, metadata

-- name: promote
-- Make scheduled jobs ready whose time has come: oldest first, so many at once at most.
UPDATE holdfast_job SET state = {ready}
WHERE seq IN (SELECT seq FROM holdfast_job WHERE state = {scheduled} AND run_at <= ?1 ORDER BY run_at LIMIT ?2);

-- name: worker_exists
-- Tell whether a worker is registered and not buried.
SELECT count(*) FROM holdfast_worker WHERE id = ?1 AND buried_at IS NULL;

-- name: asked_queues
-- The queues asked for (?1, JSON) that are not paused, in that order.
SELECT value FROM json_each(?1) WHERE value NOT IN (SELECT name FROM holdfast_queue) ORDER BY key;

-- name: every_queue
-- Queues with something ready, or adoptable (?1, JSON pairs of task and version), not paused, by name. Jumps from
-- queue to queue in the index of ready jobs instead of walking them.
WITH RECURSIVE ready (queue) AS (
    SELECT min(queue) FROM holdfast_job WHERE state = {ready}
    UNION ALL
    SELECT (SELECT min(queue) FROM holdfast_job WHERE state = {ready} AND queue > ready.queue)
    FROM ready WHERE ready.queue IS NOT NULL
)
SELECT queue FROM ready WHERE queue IS NOT NULL AND queue NOT IN (SELECT name FROM holdfast_queue)
UNION
SELECT job.queue FROM json_each(?1) AS known
CROSS JOIN holdfast_job AS job
    ON job.state = {blocked} AND job.reason = {no_worker} AND job.task = json_extract(known.value, '$[0]')
    AND job.version <= json_extract(known.value, '$[1]')
WHERE job.queue NOT IN (SELECT name FROM holdfast_queue)
ORDER BY 1;

-- name: unblock_suspects
-- Let suspects wait for a child of their own that wait for a worker which knows their task, as the one that asks does
-- (?2, JSON pairs of task and version), in the queues ?3 (JSON; NULL for every queue) without the closed ones ?4
-- (JSON). ?1 is the time.
UPDATE holdfast_job
SET state = CASE WHEN run_at <= ?1 THEN {ready} ELSE {scheduled} END, reason = NULL
WHERE seq IN (
    SELECT job.seq FROM json_each(?2) AS known
    CROSS JOIN holdfast_job AS job
        ON job.state = {blocked} AND job.reason = {no_worker} AND job.task = json_extract(known.value, '$[0]')
        AND job.version <= json_extract(known.value, '$[1]')
    WHERE job.alone > 0
        AND (?3 IS NULL OR job.queue IN (SELECT value FROM json_each(?3)))
        AND job.queue NOT IN (SELECT value FROM json_each(?4))
        AND job.queue NOT IN (SELECT name FROM holdfast_queue)
);

-- name: claim_due
-- Give the first due jobs of queue ?3 to worker ?1: ready ones, and adoptable ones that wait for such a worker.
UPDATE holdfast_job
SET state = {held}, fence = fence + 1, worker = ?1, call = ?2, started_at = NULL, reason = NULL
WHERE seq IN ({first_due})
RETURNING {claim_columns};

-- name: long_waits
-- The priorities in the queues ?1 (JSON) whose oldest ready job was due by ?3, lowest first; `depth` is 0 for the
-- highest that the queue has. Jumps from priority to priority in the index.
WITH RECURSIVE level (queue, priority, depth) AS (
    SELECT asked.value, (
        SELECT max(priority) FROM holdfast_job WHERE state = {ready} AND queue = asked.value AND alone = ?2
    ), 0
    FROM json_each(?1) AS asked
    UNION ALL
    SELECT level.queue, (
        SELECT max(priority) FROM holdfast_job
        WHERE state = {ready} AND queue = level.queue AND alone = ?2 AND priority < level.priority
    ), level.depth + 1
    FROM level WHERE level.priority IS NOT NULL
)
SELECT queue, priority, depth FROM level
WHERE priority IS NOT NULL AND ?3 >= (
    SELECT min(run_at) FROM holdfast_job
    WHERE state = {ready} AND queue = level.queue AND alone = ?2 AND priority = level.priority
)
ORDER BY priority;

-- name: adoptable_long_waits
-- The priorities of the adoptable jobs in queue ?3 that were due by ?5.
SELECT DISTINCT priority FROM ({adoptable});

-- name: due_in_order
-- The same jobs that `claim_due` gives, first one first, not yet given to anyone.
{first_due};

-- name: waiting_at
-- The next ?6 jobs of priority ?8 in queue ?3 that were due by ?5, oldest first, after run_at ?1 and seq ?2.
SELECT seq, run_at FROM (
    SELECT * FROM (
        SELECT seq, priority, run_at FROM holdfast_job
        WHERE state = {ready} AND queue = ?3 AND alone = ?4 AND priority = ?8 AND run_at <= ?5
            AND (run_at, seq) > (?1, ?2)
        ORDER BY run_at, seq LIMIT ?6
    )
    UNION
    {adoptable}
)
WHERE priority = ?8 AND (run_at, seq) > (?1, ?2)
ORDER BY run_at, seq LIMIT ?6;

-- name: claim_chosen
-- Give the jobs ?3 (JSON array of seq) to worker ?1.
UPDATE holdfast_job
SET state = {held}, fence = fence + 1, worker = ?1, call = ?2, started_at = NULL, reason = NULL
WHERE seq IN (SELECT value FROM json_each(?3))
RETURNING {claim_columns};

-- name: claim_ahead
-- Give jobs due after ?3 and until ?4 to worker ?1, soonest first, in the queues ?5 (JSON; NULL for every queue)
-- without the closed ones ?8 (JSON).
UPDATE holdfast_job
SET state = {held}, fence = fence + 1, worker = ?1, call = ?2, started_at = NULL, reason = NULL
WHERE seq IN (
    SELECT seq FROM (
        SELECT * FROM (
            SELECT seq, priority, run_at FROM holdfast_job
            WHERE state = {scheduled} AND run_at > ?3 AND run_at <= ?4 AND alone = 0
                AND (?5 IS NULL OR queue IN (SELECT value FROM json_each(?5)))
                AND queue NOT IN (SELECT value FROM json_each(?8))
                AND queue NOT IN (SELECT name FROM holdfast_queue)
            ORDER BY run_at, priority DESC, seq LIMIT ?6
        )
        UNION
        SELECT job.seq, job.priority, job.run_at FROM json_each(?7) AS known
        CROSS JOIN holdfast_job AS job
            ON job.state = {blocked} AND job.reason = {no_worker} AND job.task = json_extract(known.value, '$[0]')
            AND job.version <= json_extract(known.value, '$[1]')
        WHERE job.run_at > ?3 AND job.run_at <= ?4 AND job.alone = 0
            AND (?5 IS NULL OR job.queue IN (SELECT value FROM json_each(?5)))
            AND job.queue NOT IN (SELECT value FROM json_each(?8))
            AND job.queue NOT IN (SELECT name FROM holdfast_queue)
    )
    ORDER BY run_at, priority DESC, seq LIMIT ?6
)
RETURNING {claim_columns};

-- name: next_ready
-- The earliest run_at among the ready jobs of the queues ?1 (JSON). Jumps from priority to priority in the index.
WITH RECURSIVE level (queue, priority) AS (
    SELECT asked.value, (
        SELECT max(priority) FROM holdfast_job WHERE state = {ready} AND queue = asked.value AND alone = ?2
    )
    FROM json_each(?1) AS asked
    UNION ALL
    SELECT level.queue, (
        SELECT max(priority) FROM holdfast_job
        WHERE state = {ready} AND queue = level.queue AND alone = ?2 AND priority < level.priority
    )
    FROM level WHERE level.priority IS NOT NULL
)
SELECT min((
    SELECT min(run_at) FROM holdfast_job
    WHERE state = {ready} AND queue = level.queue AND alone = ?2 AND priority = level.priority
))
FROM level WHERE level.priority IS NOT NULL;

-- name: next_scheduled
-- The earliest run_at among the scheduled jobs of the queues ?1 (JSON; NULL for every queue) without the closed ones ?3
-- (JSON).
SELECT run_at FROM holdfast_job
WHERE state = {scheduled} AND alone = ?2
    AND (?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))
    AND queue NOT IN (SELECT value FROM json_each(?3))
    AND queue NOT IN (SELECT name FROM holdfast_queue)
ORDER BY run_at LIMIT 1;

-- name: last_arrival
-- Which job came last: who waits for work looks at it after a commit for which nobody rang.
SELECT coalesce(max(seq), 0) FROM holdfast_job;
