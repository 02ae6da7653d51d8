-- The fenced writes of a claim, and how a claim ends.
--
-- Lists come as arrays, one per column, ordered by id: rows are locked in that order everywhere, so that no two calls
-- ever wait for each other in a circle.
--
-- The planner is left no choice but to take a list from its beginning and look up each claim in the index on its id,
-- with statistics or without, in a plan made now or long ago: never to walk the table, which under an old snapshot is
-- full of dead rows. `unnest((SELECT $n))` hides how long a list is, which so counts as ten; `= ANY (ARRAY[…])` and a
-- difference are no equalities that tables could be hashed or merged by; and the table has so many pages from the
-- beginning (see the migration) that to read them all looks dearer than ten looks into the index.

-- part: moment
-- The time, read once. $1 is NULL for the server's.
moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now)

-- part: claimed_columns
-- A claim with all that decides how it ends, as ClaimedRow has it.
claim.seq, claim.id::text, claim.fence, claim.worker, claim.call,
    CASE WHEN claim.running THEN {running} ELSE {held} END, claim.run_at, claim.attempt, claim.crashes,
    job.max_attempts, claim.alone, claim.cancel_requested, claim.started_at, claim.error, claim.queue, job.task,
    job.key, claim.replaced

-- part: job_of_claim
-- The job of a claim, looked up by its id whatever the planner thinks of the table.
CROSS JOIN LATERAL (
    SELECT asked_for.task, asked_for.key, asked_for.max_attempts
    FROM holdfast.job AS asked_for WHERE asked_for.id = claim.id OFFSET 0
) AS job

-- part: freed
-- Let the jobs that waited for the end of others wait for their time as any other. Those others are listed in `ended`,
-- and are in no worker's hands any more: whoever lets a job wait for a claimed one holds the claim's row until that is
-- committed, so this, in a statement after the one that took the claim, finds them all.
UPDATE holdfast.waiting AS waiting SET blocked = false, reason = NULL, after = NULL
FROM ended
WHERE waiting.after = ended.id AND waiting.after IS NOT NULL
    AND NOT EXISTS (SELECT FROM holdfast.claim AS claim WHERE claim.id = ANY (ARRAY[ended.id]))

-- part: recorded
-- The claims of the jobs in `asked` that worker $1 itself ended, now or earlier.
SELECT outcome.id, outcome.fence::bigint FROM holdfast.outcome AS outcome
WHERE outcome.id = ANY (ARRAY(SELECT id FROM asked)) AND outcome.worker = $1::text AND outcome.state = {completed}
UNION ALL
SELECT attempt.id, attempt.fence::bigint FROM holdfast.attempt AS attempt
WHERE attempt.id = ANY (ARRAY(SELECT id FROM asked)) AND attempt.worker = $1::text AND attempt.ended_by = 'finish'

-- name: start
-- Mark claims of worker $1 as running; one that runs already keeps its time. Tells which were valid.
UPDATE holdfast.claim AS claim SET running = true, started_at = coalesce(claim.started_at, started.at)
FROM unnest((SELECT $2::uuid[]), (SELECT $3::bigint[]), (SELECT $4::bigint[])) AS started (id, fence, at)
WHERE claim.id = ANY (ARRAY[started.id]) AND claim.fence - started.fence = 0 AND claim.worker = $1::text
RETURNING claim.id::text, claim.fence;

-- name: progress
-- Note how far the jobs of claims of worker $1 are. Tells which were valid.
UPDATE holdfast.claim AS claim SET progress_done = report.done, progress_total = report.total
FROM unnest(
    (SELECT $2::uuid[]), (SELECT $3::bigint[]), (SELECT $4::double precision[]), (SELECT $5::double precision[])
) AS report (id, fence, done, total)
WHERE claim.id = ANY (ARRAY[report.id]) AND claim.fence - report.fence = 0 AND claim.worker = $1::text
RETURNING claim.id::text, claim.fence;

-- name: complete
-- End claims of worker $2 with success: all that their history needs is in their outcome. $7 is for how long each
-- result is kept, NULL for ever, and NULL in place of a list where that holds for all. What is left to do is noted for
-- `settle_completed`, until the transaction ends.
WITH {moment}, gone AS (
    DELETE FROM holdfast.claim AS claim
    USING unnest(
        (SELECT $3::uuid[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]), (SELECT $6::bytea[]), (SELECT $7::bigint[])
    ) AS done (id, fence, started_at, result, keep)
    WHERE claim.id = ANY (ARRAY[done.id]) AND claim.fence - done.fence = 0 AND claim.worker = $2::text
    RETURNING claim.id, claim.queue, claim.fence, claim.worker, claim.run_at, claim.attempt, claim.crashes,
        claim.alone, claim.cancel_requested, claim.replaced, claim.progress_done, claim.progress_total,
        coalesce(done.started_at, claim.started_at) AS started_at, done.result,
        (SELECT now FROM moment) + done.keep AS result_until
), ended AS (
    INSERT INTO holdfast.outcome (id, state, queue, fence, worker, run_at, started_at, finished_at, attempt, crashes,
        alone, cancel_requested, progress_done, progress_total, result, result_until)
    SELECT id, {completed}, queue, fence, worker, run_at, started_at, (SELECT now FROM moment), attempt, crashes,
        alone, cancel_requested, progress_done, progress_total, result, result_until
    FROM gone
), faded AS (
    INSERT INTO holdfast.fading (until_at, id)
    SELECT result_until, id FROM gone
    WHERE $7::bigint[] IS NOT NULL AND result_until IS NOT NULL AND result IS NOT NULL
), count AS MATERIALIZED (
    SELECT queue, count(*) AS jobs, count(*) FILTER (WHERE replaced) AS awaited FROM gone GROUP BY queue
), counted AS (
    INSERT INTO holdfast.tally (queue, state, jobs) SELECT queue, {completed}, jobs FROM count
)
SELECT
    set_config('holdfast_finish.left_over', CASE sum(jobs) WHEN cardinality($3::uuid[]) THEN 'no' ELSE 'yes' END, true),
    set_config('holdfast_finish.awaited', CASE WHEN sum(awaited) > 0 THEN 'yes' ELSE 'no' END, true)
FROM count;

-- name: settle_completed
-- What `complete` left to do for the same claims of worker $1, mostly nothing: frees who waited for them, and tells how
-- many those were; and the places in the list of those that were not valid, nor recorded before. The lists come as
-- text, which is read only if they are needed.
WITH ended AS (
    SELECT id
    FROM unnest((SELECT CASE current_setting('holdfast_finish.awaited') WHEN 'yes' THEN $2::text::uuid[] END))
        AS listed (id)
), freed AS (
    {freed} RETURNING waiting.id
), asked AS (
    SELECT id, fence, place
    FROM unnest(
        (SELECT CASE current_setting('holdfast_finish.left_over') WHEN 'yes' THEN $2::text::uuid[] END),
        (SELECT CASE current_setting('holdfast_finish.left_over') WHEN 'yes' THEN $3::text::bigint[] END)
    ) WITH ORDINALITY AS listed (id, fence, place)
)
SELECT (SELECT count(*) FROM freed),
    ARRAY(SELECT asked.place FROM asked WHERE (asked.id, asked.fence) NOT IN ({recorded}));

-- name: free_replacements
-- Free who waited for the end of jobs, which have ended.
WITH ended AS (SELECT id FROM unnest((SELECT $1::uuid[])) AS listed (id)) {freed};

-- name: recorded
-- The claims of these jobs that worker $1 itself ended earlier, by job and fence.
WITH asked AS (SELECT id FROM unnest((SELECT $2::uuid[])) AS listed (id))
SELECT ended.id::text, ended.fence FROM ({recorded}) AS ended (id, fence);

-- name: claimed_jobs
-- Those of the listed claims that worker $2 has, locked, and before each the time.
WITH {moment}
SELECT (SELECT now FROM moment), {claimed_columns}
FROM unnest((SELECT $3::uuid[]), (SELECT $4::bigint[])) AS asked (id, fence)
JOIN holdfast.claim AS claim ON claim.id = ANY (ARRAY[asked.id]) AND claim.fence - asked.fence = 0
    AND claim.worker = $2::text
{job_of_claim}
ORDER BY asked.id FOR UPDATE OF claim;

-- name: unnamed_claims
-- The claims of worker $2 of calls up to $3 that are not listed, locked, and before each the time.
WITH {moment}
SELECT (SELECT now FROM moment), {claimed_columns}
FROM holdfast.claim AS claim
{job_of_claim}
WHERE claim.worker = $2::text AND claim.call <= $3::bigint AND NOT EXISTS (
    SELECT FROM unnest((SELECT $4::uuid[]), (SELECT $5::bigint[])) AS named (id, fence)
    WHERE named.id = claim.id AND named.fence = claim.fence
)
ORDER BY claim.id FOR UPDATE OF claim;

-- name: claims_of
-- Every claim of worker $1, locked, and how often each brought down a process of its own.
SELECT (
    SELECT count(*) FROM holdfast.attempt AS attempt WHERE attempt.id = claim.id AND attempt.how = $2::text
), {claimed_columns}
FROM holdfast.claim AS claim
{job_of_claim}
WHERE claim.worker = $1::text
ORDER BY claim.id FOR UPDATE OF claim;

-- name: record_attempts
-- Write how claims ended into the history, at the time $1.
INSERT INTO holdfast.attempt (id, fence, worker, started_at, ended_at, how, error, traceback, log, ended_by)
SELECT id, fence, worker, started_at, $1::bigint, how, error, traceback, log, ended_by
FROM unnest(
    $2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]
) AS ended (id, fence, worker, started_at, how, error, traceback, log, ended_by);

-- name: end_for_good
-- Make claimed jobs final at the time $1; who had them last stays known.
WITH gone AS (
    DELETE FROM holdfast.claim AS claim
    USING unnest(
        (SELECT $2::uuid[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::bigint[]), (SELECT $6::integer[]),
        (SELECT $7::integer[]), (SELECT $8::boolean[]), (SELECT $9::text[]), (SELECT $10::bytea[]),
        (SELECT $11::bigint[])
    ) AS done (id, state, reason, started_at, attempt, crashes, alone, error, result, result_until)
    WHERE claim.id = ANY (ARRAY[done.id])
    RETURNING claim.queue, claim.fence, claim.worker, claim.run_at, claim.cancel_requested, claim.progress_done,
        claim.progress_total, done.*
), ended AS (
    INSERT INTO holdfast.outcome (id, state, reason, queue, fence, worker, run_at, started_at, finished_at, attempt,
        crashes, alone, cancel_requested, error, progress_done, progress_total, result, result_until)
    SELECT id, state, reason, queue, fence, worker, run_at, started_at, $1::bigint, attempt, crashes, alone,
        cancel_requested, error, progress_done, progress_total, result, result_until
    FROM gone
), faded AS (
    INSERT INTO holdfast.fading (until_at, id)
    SELECT result_until, id FROM gone WHERE result_until IS NOT NULL AND result IS NOT NULL
)
INSERT INTO holdfast.tally (queue, state, jobs) SELECT queue, state, count(*) FROM gone GROUP BY queue, state;

-- name: give_back
-- Let claimed jobs wait again, in nobody's hands.
WITH gone AS (
    DELETE FROM holdfast.claim AS claim
    USING unnest(
        (SELECT $1::uuid[]), (SELECT $2::boolean[]), (SELECT $3::text[]), (SELECT $4::bigint[]),
        (SELECT $5::integer[]), (SELECT $6::integer[]), (SELECT $7::boolean[]), (SELECT $8::text[])
    ) AS back (id, blocked, reason, run_at, attempt, crashes, alone, error)
    WHERE claim.id = ANY (ARRAY[back.id])
    RETURNING claim.queue, claim.priority, claim.seq, claim.fence, back.*
)
INSERT INTO holdfast.waiting (queue, priority, run_at, seq, id, task, version, fence, attempt, crashes, alone, blocked,
    reason, error)
SELECT gone.queue, gone.priority, gone.run_at, gone.seq, gone.id, job.task, job.version, gone.fence, gone.attempt,
    gone.crashes, gone.alone, gone.blocked, gone.reason, gone.error
FROM gone CROSS JOIN LATERAL (
    SELECT asked_for.task, asked_for.version FROM holdfast.job AS asked_for WHERE asked_for.id = gone.id OFFSET 0
) AS job;
