-- What people look at: one statement for each look, so that it sees one moment. A job that waits for its time is
-- shown by it: READY once that has come. Walks go by id along an index and stop at the end of a page; LATERAL keeps
-- a planner from joining whole tables instead.

-- part: asked
-- What is said of a page: states, queue, task, key, tags, metadata (a JSON object) and a part of the error, NULL
-- for any; the newest id that it may show, the one that all are greater than, and how many. The error is compared
-- after its `letters` have become the `lowered`.
now bigint, states text[], queue text, task text, newest uuid, after uuid, limit bigint, key text, tags text[],
    metadata text, error text, letters text, lowered text, worker text

-- part: stretch
-- What says of which jobs, and of how many of them, the end is looked for.
newest uuid, after uuid, span bigint

-- part: shown
-- The state in which a waiting job is shown.
CASE WHEN waiting.blocked THEN {blocked} WHEN waiting.run_at <= (SELECT now FROM moment) THEN {ready}
    ELSE {scheduled} END

-- part: in_hand
-- The state of a claimed job.
CASE WHEN claim.running THEN {running} ELSE {held} END

-- part: fresh_place
-- Where a fresh job is in its life: at its beginning. What is NULL here is as its row in job says, or not yet.
SELECT fresh.id, {ready} AS state, fresh.queue, NULL::text AS reason, NULL::bigint AS run_at,
    NULL::bigint AS finished_at, NULL::integer AS fence, NULL::integer AS attempt, NULL::integer AS crashes,
    NULL::boolean AS alone, NULL::boolean AS cancel_requested, NULL::text AS worker, NULL::bytea AS result,
    NULL::text AS error, NULL::double precision AS progress_done, NULL::double precision AS progress_total,
    NULL::uuid AS after, NULL::bigint AS result_until
FROM standfast.fresh AS fresh

-- part: waiting_place
-- The same of a job that waits.
SELECT waiting.id, {shown} AS state, waiting.queue, waiting.reason, waiting.run_at,
    NULL::bigint AS finished_at, waiting.fence, waiting.attempt, waiting.crashes, waiting.alone,
    false AS cancel_requested, NULL::text AS worker, NULL::bytea AS result, waiting.error,
    NULL::double precision AS progress_done, NULL::double precision AS progress_total, waiting.after,
    NULL::bigint AS result_until
FROM standfast.waiting AS waiting

-- part: claim_place
-- The same of a job that a worker has.
SELECT claim.id, {in_hand} AS state, claim.queue, NULL::text AS reason, claim.run_at,
    NULL::bigint AS finished_at, claim.fence, claim.attempt, claim.crashes, claim.alone, claim.cancel_requested,
    claim.worker, NULL::bytea AS result, claim.error, claim.progress_done, claim.progress_total, NULL::uuid AS after,
    NULL::bigint AS result_until
FROM standfast.claim AS claim

-- part: outcome_place
-- The same of a job that has ended. A result whose time is over is seen no more, forgotten or not.
SELECT outcome.id, outcome.state, outcome.queue, outcome.reason, outcome.run_at,
    outcome.finished_at, outcome.fence, outcome.attempt, outcome.crashes, outcome.alone, outcome.cancel_requested,
    outcome.worker,
    CASE WHEN outcome.result_until <= (SELECT now FROM moment) THEN NULL ELSE outcome.result END AS result,
    outcome.error, outcome.progress_done, outcome.progress_total, NULL::uuid AS after, outcome.result_until
FROM standfast.outcome AS outcome

-- part: placed
-- A job with where it is in its life. One that is in none of these tables is fresh.
LEFT JOIN LATERAL (
    {waiting_place} WHERE waiting.id = job.id
    UNION ALL {claim_place} WHERE claim.id = job.id
    UNION ALL {outcome_place} WHERE outcome.id = job.id
) AS place ON true

-- part: note
-- What the handler of a job said that it is doing, with its progress: of the claim that this is the progress of.
CASE WHEN place.progress_done IS NOT NULL THEN (
        SELECT said.note FROM standfast.note AS said WHERE said.id = job.id AND said.fence = place.fence
    ) END

-- part: group_of_job
-- The group of a suspect, and 0 of any other job.
CASE WHEN place.alone THEN coalesce(
        (SELECT suspect.size FROM standfast.suspect AS suspect WHERE suspect.id = job.id), 1
    ) ELSE 0 END

-- part: job_columns
-- All that is shown of a job.
job.id::text, job.task, job.version, job.queue, job.priority, coalesce(place.state, {ready}), place.reason,
    coalesce(place.run_at, job.run_at), job.created_at, place.finished_at, coalesce(place.fence, 0),
    coalesce(place.attempt, 0), coalesce(place.crashes, 0), job.max_attempts, {group_of_job},
    coalesce(place.cancel_requested, false), place.worker, job.payload, place.result, place.error,
    place.progress_done, place.progress_total, {note}, job.key, job.tags, job.metadata, job.start_by, job.on_late,
    place.after::text, place.result_until, job.keep_key

-- part: wanted
-- A job that a page is about. Said in this way, the planner expects nearly every job to be wanted, and walks; by
-- its own guesses it would sort all of them.
CASE WHEN (:queue IS NULL OR job.queue = :queue) AND (:task IS NULL OR job.task = :task)
    AND (:key IS NULL OR job.key = :key)
    AND (:tags IS NULL OR job.tags @> :tags)
    AND (:metadata IS NULL OR job.metadata::jsonb @> :metadata::jsonb) THEN 1 ELSE 0 END <> 0

-- part: wanted_there
-- The same of where a job is in its life: the queue again, which is known there too; the state, and the error.
CASE WHEN (:queue IS NULL OR place.queue IS NULL OR place.queue = :queue)
    AND (:states IS NULL OR coalesce(place.state, {ready}) = ANY (:states))
    AND (:error IS NULL OR strpos(translate(place.error, :letters, :lowered), :error) > 0)
    AND (:worker IS NULL OR place.worker = :worker)
    THEN 1 ELSE 0 END <> 0

-- part: page
-- The end of a walk, which the planner takes for a short one, as it cannot know how short the page is.
LIMIT 500

-- part: walked
-- What of a table is wanted, in order. The limit is none; but without one the planner would drop every plan that is
-- not the best for all of the table, and with them those that are quick to begin.
place.id <= :newest AND place.id > :after AND {wanted_there} ORDER BY place.id DESC LIMIT 1000000000

-- part: all_of_them
-- A limit that is none, but the planner does not know it.
LIMIT (SELECT 1000000000)

-- part: claims
-- Every claim. After a storm the table is large and mostly empty: said in this way, the planner walks its index, as it
-- hopes for an early end. And such a walk passes over for good what is dead, where a bitmap would look at it each time.
(SELECT * FROM standfast.claim ORDER BY id {all_of_them}) AS claim

-- part: in_stretch
-- What of a table a look at so many jobs may come to.
id <= :newest AND id > :after ORDER BY id DESC LIMIT :span + 1

-- part: level_seen
-- The levels, and from where the fresh jobs of each are walked: before its mark none is left, and none will come.
asker AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin),
level AS MATERIALIZED (
    SELECT seen.queue, seen.priority,
        {mark}
    FROM asker CROSS JOIN (SELECT DISTINCT queue, priority FROM standfast.level) AS seen
    CROSS JOIN LATERAL (SELECT (:marks ->> (seen.priority || ' ' || seen.queue))::xid8 AS mark) AS noted
)

-- part: fresh_jobs
-- How many fresh jobs each level has.
fresh_jobs AS MATERIALIZED (
    SELECT level.queue, there.jobs FROM level CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM standfast.fresh AS fresh WHERE {fresh_of_level} {all_of_them}
        ) AS walked
    ) AS there
)

-- part: worker_rows
-- Every registered worker with how long ago its last beat was, how much it has in hand, and how it is.
SELECT worker.seq, worker.id, worker.supervisor, worker.host, worker.pid, worker.lease, worker.queues,
    worker.concurrency, worker.started_at, greatest((SELECT now FROM moment) - worker.beat_at, 0) AS beat_age,
    worker.condemned, coalesce(had.held, 0) AS held, coalesce(had.running, 0) AS running,
    vitals.told
FROM standfast.worker AS worker LEFT JOIN standfast.vitals AS vitals ON vitals.worker = worker.id LEFT JOIN (
    SELECT claim.worker, count(*) FILTER (WHERE NOT claim.running) AS held,
        count(*) FILTER (WHERE claim.running) AS running
    FROM {claims} GROUP BY claim.worker
) AS had ON had.worker = worker.id

-- name: job
-- takes: now bigint, job uuid
-- One job.
WITH {moment} SELECT {job_columns} FROM standfast.job AS job {placed} WHERE job.id = :job;

-- name: jobs
-- takes: {asked}
-- A page of jobs, newest id first.
WITH {moment}
SELECT * FROM (
    SELECT {job_columns} FROM standfast.job AS job {placed}
    WHERE job.id <= :newest AND job.id > :after AND {wanted} AND {wanted_there} ORDER BY job.id DESC {page}
) AS found LIMIT :limit;

-- name: newest_jobs
-- takes: {asked}
-- The same page, looked for among the newest jobs only, ten times as many as it shows.
WITH {moment}
SELECT {job_columns}
FROM (SELECT * FROM standfast.job WHERE id <= :newest AND id > :after ORDER BY id DESC LIMIT 10 * :limit) AS job {placed}
WHERE {wanted} AND {wanted_there} ORDER BY job.id DESC LIMIT :limit;

-- name: keyed_jobs
-- takes: {asked}
-- The same page where a key is asked for.
WITH {moment}
SELECT * FROM (
    SELECT {job_columns} FROM standfast.job AS job {placed}
    WHERE job.key = :key AND job.id <= :newest AND job.id > :after AND {wanted} AND {wanted_there} ORDER BY job.id DESC {page}
) AS found LIMIT :limit;

-- name: tagged_jobs
-- takes: {asked}
-- The same page where tags are asked for: a walk along the first of them.
WITH {moment}
SELECT * FROM (
    SELECT {job_columns}
    FROM standfast.tag AS first
    CROSS JOIN LATERAL (SELECT * FROM standfast.job WHERE id = first.id OFFSET 0) AS job {placed}
    WHERE first.tag = (:tags)[1] AND first.id <= :newest AND first.id > :after AND {wanted} AND {wanted_there}
    ORDER BY first.id DESC {page}
) AS found LIMIT :limit;

-- name: jobs_in_states
-- takes: {asked}
-- The same page where states are asked for, or an error, which no fresh job has: walks along the tables of those
-- states and no others. Fresh jobs are sorted, no more than the page shows of them where nothing else is asked. Of
-- those that wait, the due and the blocked ones are mostly few among many: if they are, they are found by indexes
-- of their own.
WITH {moment}, few AS MATERIALIZED (
    (SELECT id FROM standfast.waiting
        WHERE {ready} = ANY (:states) AND NOT blocked AND NOT alone AND run_at <= (SELECT now FROM moment)
        ORDER BY run_at, priority DESC, seq LIMIT 201)
    UNION ALL
    (SELECT suspect.id FROM standfast.level AS level CROSS JOIN LATERAL (
            SELECT id FROM standfast.waiting
            WHERE queue = level.queue AND alone AND priority = level.priority AND NOT blocked
                AND run_at <= (SELECT now FROM moment)
            ORDER BY run_at, seq LIMIT 201
        ) AS suspect
        WHERE {ready} = ANY (:states) LIMIT 201)
    UNION ALL
    (SELECT id FROM standfast.waiting
        WHERE {blocked} = ANY (:states) AND blocked ORDER BY reason, task, version LIMIT 201)
), many AS MATERIALIZED (
    SELECT {scheduled} = ANY (:states) OR (SELECT count(*) FROM few) > 200 AS so
)
SELECT * FROM (
    SELECT {job_columns}
    FROM (
        (SELECT * FROM ({fresh_place}) AS place
            WHERE {ready} = ANY (:states) AND :error IS NULL AND place.id <= :newest AND place.id > :after AND {wanted_there}
            ORDER BY place.id DESC
            LIMIT CASE WHEN :task IS NULL AND :metadata IS NULL THEN :limit ELSE 1000000000 END)
        UNION ALL
        (SELECT * FROM ({waiting_place}) AS place
            WHERE :states && ARRAY[{ready}, {scheduled}, {blocked}] AND (SELECT so FROM many) AND {walked})
        UNION ALL
        (SELECT place.* FROM few CROSS JOIN LATERAL ({waiting_place} WHERE waiting.id = few.id OFFSET 0) AS place
            WHERE NOT (SELECT so FROM many) AND {walked})
        UNION ALL
        (SELECT * FROM ({claim_place}) AS place
            WHERE :states && ARRAY[{held}, {running}] AND {walked})
        UNION ALL
        (SELECT * FROM ({outcome_place}) AS place
            WHERE {dead} = ANY (:states) AND place.state = {dead} AND {walked})
        UNION ALL
        (SELECT * FROM ({outcome_place}) AS place
            WHERE {cancelled} = ANY (:states) AND place.state = {cancelled} AND {walked})
        UNION ALL
        (SELECT * FROM ({outcome_place}) AS place
            WHERE {completed} = ANY (:states) AND place.state NOT IN ({dead}, {cancelled}) AND {walked})
    ) AS place CROSS JOIN LATERAL (SELECT * FROM standfast.job WHERE id = place.id OFFSET 0) AS job
    WHERE {wanted} ORDER BY place.id DESC {page}
) AS found LIMIT :limit;

-- name: jobs_end
-- takes: {stretch}
-- Where a look at so many jobs ends: the last of them, and the one beyond it if there is one.
SELECT job.id::text FROM standfast.job AS job WHERE job.id <= :newest AND job.id > :after
ORDER BY job.id DESC LIMIT 2 OFFSET :span - 1;

-- name: keyed_jobs_end
-- takes: {stretch}, key text
-- The same of the jobs of a key.
SELECT job.id::text FROM standfast.job AS job WHERE job.key = :key AND job.id <= :newest AND job.id > :after
ORDER BY job.id DESC LIMIT 2 OFFSET :span - 1;

-- name: tagged_jobs_end
-- takes: {stretch}, tag text
-- The same of the jobs of a tag.
SELECT tag.id::text FROM standfast.tag AS tag WHERE tag.tag = :tag AND tag.id <= :newest AND tag.id > :after
ORDER BY tag.id DESC LIMIT 2 OFFSET :span - 1;

-- name: jobs_in_states_end
-- takes: {stretch}, states text[]
-- The same of the jobs in states.
SELECT place.id::text FROM (
    (SELECT id FROM standfast.fresh WHERE {ready} = ANY (:states) AND {in_stretch})
    UNION ALL
    (SELECT id FROM standfast.waiting
        WHERE :states && ARRAY[{ready}, {scheduled}, {blocked}] AND {in_stretch})
    UNION ALL
    (SELECT id FROM standfast.claim WHERE :states && ARRAY[{held}, {running}] AND {in_stretch})
    UNION ALL
    (SELECT id FROM standfast.outcome WHERE {dead} = ANY (:states) AND state = {dead} AND {in_stretch})
    UNION ALL
    (SELECT id FROM standfast.outcome WHERE {cancelled} = ANY (:states) AND state = {cancelled} AND {in_stretch})
    UNION ALL
    (SELECT id FROM standfast.outcome
        WHERE {completed} = ANY (:states) AND state NOT IN ({dead}, {cancelled}) AND {in_stretch})
) AS place ORDER BY place.id DESC LIMIT 2 OFFSET :span - 1;

-- name: glance
-- takes: now bigint, jobs uuid[]
-- The little that those who wait for jobs look at again and again.
WITH {moment}
SELECT job.id::text, coalesce(place.state, {ready}), place.progress_done, place.progress_total, {note}
FROM unnest(:jobs) AS asked (id)
CROSS JOIN LATERAL (SELECT id FROM standfast.job WHERE id = asked.id OFFSET 0) AS job {placed};

-- name: history
-- takes: job uuid, completed text, first integer, last integer
-- Every claim of a job by fence; those between so many at the beginning and so many at the end are counted by how they
-- ended. The claim that lasts, and one that ended by plain completion, have no row in attempt: claim and outcome say
-- all of them.
WITH present AS MATERIALIZED (
    SELECT fence, worker, started_at, NULL::bigint AS ended_at, NULL AS how FROM standfast.claim WHERE id = :job
    UNION ALL
    SELECT fence, worker, started_at, finished_at, :completed FROM standfast.outcome AS outcome
    WHERE id = :job AND state = {completed} AND NOT EXISTS (
        SELECT 1 FROM standfast.attempt AS attempt WHERE attempt.id = :job AND attempt.fence = outcome.fence
    )
), recent AS MATERIALIZED (
    SELECT greatest(
        (SELECT fence FROM present), (SELECT max(attempt.fence) FROM standfast.attempt AS attempt WHERE id = :job)
    ) - :last AS start
)
SELECT fence, worker, started_at, ended_at, how, error, traceback, log, 0 AS folded FROM standfast.attempt
WHERE id = :job AND (fence <= :first OR fence > (SELECT start FROM recent))
UNION ALL
SELECT max(fence), '', min(started_at), max(ended_at), how, NULL, NULL, NULL, sum({number})::integer
FROM standfast.attempt AS attempt
WHERE id = :job AND fence > :first AND fence <= (SELECT start FROM recent) GROUP BY how
UNION ALL
SELECT fence, worker, started_at, ended_at, how, NULL, NULL, NULL, 0 FROM present
ORDER BY fence;

-- name: queue_states
-- takes: now bigint, marks jsonb
-- How many jobs of each queue are in each state, and, with the state NULL, since when which queue is paused.
WITH {moment}, {level_seen}, {fresh_jobs}
SELECT queue, state, sum(jobs)::bigint AS jobs FROM standfast.tally GROUP BY queue, state HAVING sum(jobs) > 0
UNION ALL
SELECT queue, {ready}, sum(jobs)::bigint FROM fresh_jobs GROUP BY queue HAVING sum(jobs) > 0
UNION ALL
SELECT waiting.queue, {shown} AS state, count(*) FROM standfast.waiting AS waiting GROUP BY 1, 2
UNION ALL
SELECT claim.queue, {in_hand} AS state, count(*) FROM {claims} GROUP BY 1, 2
UNION ALL
SELECT name, NULL, paused_at FROM standfast.queue;

-- name: queue_ages
-- takes: now bigint, marks jsonb
-- The first row tells the time, and up to which transaction all have ended; no such one to a transaction that has
-- written itself, and may take it back. Then each level: its first fresh job by its transaction, since when its oldest
-- due job that nobody has claimed is due, and since when its queue is paused. Of each level the first job of each kind
-- is looked up in an index; before the marks (by priority and queue) no fresh one is left.
WITH {moment}, {level_seen},
first AS MATERIALIZED (
    SELECT level.queue, level.priority, fresh.xid, least(fresh.run_at, waiting.run_at, suspect.run_at) AS due_at
    FROM level
    LEFT JOIN LATERAL (
        SELECT fresh.xid, fresh.run_at FROM standfast.fresh AS fresh WHERE {fresh_of_level} LIMIT 1
    ) AS fresh ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM standfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND NOT waiting.alone
            AND waiting.priority = level.priority
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS waiting ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM standfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND waiting.alone
            AND waiting.priority = level.priority
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS suspect ON true
)
SELECT moment.now, CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN asker.xmin::text END, NULL::text, NULL::integer,
    NULL::bigint AS due_at, NULL::bigint AS paused_at
FROM moment, asker
UNION ALL
SELECT NULL, first.xid::text, first.queue, first.priority,
    CASE WHEN first.due_at <= (SELECT now FROM moment) THEN first.due_at END, paused.paused_at
FROM first LEFT JOIN standfast.queue AS paused ON paused.name = first.queue;

-- name: unknown_ages
-- takes: now bigint, most bigint
-- Of each task and payload version that no worker knew, by queue, since when the oldest job is due. Jumps from one to the
-- next in the index of blocked jobs, and looks at the first `most` of each.
WITH RECURSIVE {moment},
kind AS (
    (
        SELECT task, version FROM standfast.waiting WHERE blocked AND reason = {no_worker} ORDER BY task, version LIMIT 1
    )
    UNION ALL
    SELECT later.task, later.version FROM kind CROSS JOIN LATERAL (
        SELECT task, version FROM standfast.waiting
        WHERE blocked AND reason = {no_worker} AND (task, version) > (kind.task, kind.version)
        ORDER BY task, version LIMIT 1
    ) AS later
)
SELECT job.queue, kind.task, kind.version, min(job.run_at) FROM kind CROSS JOIN LATERAL (
    SELECT queue, run_at FROM standfast.waiting
    WHERE blocked AND reason = {no_worker} AND task = kind.task AND version = kind.version LIMIT :most
) AS job
WHERE job.run_at <= (SELECT now FROM moment) GROUP BY 1, 2, 3;

-- name: workers
-- takes: now bigint
-- Every registered worker, oldest first.
WITH {moment} {worker_rows} ORDER BY worker.seq;

-- name: situation
-- takes: now bigint, job uuid
-- A job with the time, since when its queue is paused, the workers as a JSON array of rows, and how many due jobs
-- of its queue go first, if it waits itself.
WITH {moment}
SELECT (SELECT now FROM moment), (SELECT paused_at FROM standfast.queue WHERE name = job.queue),
    (SELECT json_agg(to_json(row) ORDER BY row.seq)::text FROM ({worker_rows}) AS row),
    CASE WHEN coalesce(place.state, {ready}) IN {waiting} THEN (
        SELECT count(*) FROM standfast.fresh AS other
        WHERE other.queue = job.queue AND (-other.priority::bigint, other.run_at, other.seq)
            < (-job.priority::bigint, coalesce(place.run_at, job.run_at), job.seq)
    ) + (
        SELECT count(*) FROM standfast.waiting AS other
        WHERE NOT other.blocked AND other.queue = job.queue AND other.run_at <= (SELECT now FROM moment)
            AND (-other.priority::bigint, other.run_at, other.seq)
            < (-job.priority::bigint, coalesce(place.run_at, job.run_at), job.seq)
    ) ELSE 0 END,
    {job_columns}
FROM standfast.job AS job {placed} WHERE job.id = :job;

-- name: unsettled
-- takes: now bigint, queues text[], asleep text, signalled text
-- How many jobs of the queues (NULL for all) a drain still waits for. Not for those that have given their slot back
-- on purpose: their reason is `asleep`, or begins as `signalled`.
WITH {moment}
SELECT (
    SELECT count(*) FROM standfast.fresh
    WHERE queue NOT IN (SELECT name FROM standfast.queue) AND (:queues IS NULL OR queue = ANY (:queues))
) + (
    SELECT count(*) FROM standfast.waiting
    WHERE NOT blocked AND (:queues IS NULL OR queue = ANY (:queues)) AND CASE
        WHEN run_at <= (SELECT now FROM moment) THEN queue NOT IN (SELECT name FROM standfast.queue)
        ELSE fence > 0 AND (reason IS NULL OR NOT (reason = :asleep OR starts_with(reason, :signalled))) END
) + (
    SELECT count(*) FROM {claims} WHERE :queues IS NULL OR claim.queue = ANY (:queues)
);
