-- The fenced writes of a claim, and how a claim ends.
--
-- Lists come as arrays, one per column, ordered by id: rows are locked in that order everywhere, so that no two
-- calls ever wait for each other in a circle.
--
-- The planner is left no choice but to take a list from its beginning and look up each claim in the index on its
-- id, with statistics or without, in a plan made now or long ago: never to walk the table, which under an old
-- snapshot is full of dead rows. `unnest((SELECT :ids))` hides how long a list is, which so counts as ten; `= ANY
-- (ARRAY[…])` and a difference are no equalities that tables could be hashed or merged by; and the table has so
-- many pages from the beginning (see the migration) that to read them all looks dearer than ten looks into the
-- index.

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
    FROM standfast.job AS asked_for WHERE asked_for.id = claim.id OFFSET 0
) AS job

-- part: freed
-- Let the jobs that waited for the end of others wait for their time as any other. Those others are listed in
-- `ended`, and are in no worker's hands any more: whoever lets a job wait for a claimed one holds the claim's row
-- until that is committed, so this, in a statement after the one that took the claim, finds them all.
UPDATE standfast.waiting AS waiting SET blocked = false, reason = NULL, after = NULL
FROM ended
WHERE waiting.after = ended.id AND waiting.after IS NOT NULL
    AND NOT EXISTS (SELECT FROM standfast.claim AS claim WHERE claim.id = ANY (ARRAY[ended.id]))

-- part: recorded
-- The claims of the jobs in `asked` that the worker itself ended, now or earlier.
SELECT outcome.id, outcome.fence::bigint FROM standfast.outcome AS outcome
WHERE outcome.id = ANY (ARRAY(SELECT id FROM asked)) AND outcome.worker = :worker AND outcome.state = {completed}
UNION ALL
SELECT attempt.id, attempt.fence::bigint FROM standfast.attempt AS attempt
WHERE attempt.id = ANY (ARRAY(SELECT id FROM asked)) AND attempt.worker = :worker AND attempt.ended_by = 'finish'

-- name: start
-- takes: worker text, ids uuid[], fences bigint[], times bigint[]
-- Mark claims of a worker as running; one that runs already keeps its time. Tells which were valid.
UPDATE standfast.claim AS claim SET running = true, started_at = coalesce(claim.started_at, started.at)
FROM unnest((SELECT :ids), (SELECT :fences), (SELECT :times)) AS started (id, fence, at)
WHERE claim.id = ANY (ARRAY[started.id]) AND claim.fence - started.fence = 0 AND claim.worker = :worker
RETURNING claim.id::text, claim.fence;

-- name: progress
-- takes: worker text, ids uuid[], fences bigint[], dones double precision[], totals double precision[], notes text[]
-- Note how far the jobs of claims of a worker are, and what they are doing. Tells which were valid.
WITH reported AS (
    UPDATE standfast.claim AS claim SET progress_done = report.done, progress_total = report.total
    FROM unnest(
        (SELECT :ids), (SELECT :fences), (SELECT :dones), (SELECT :totals), (SELECT :notes)
    ) AS report (id, fence, done, total, note)
    WHERE claim.id = ANY (ARRAY[report.id]) AND claim.fence - report.fence = 0 AND claim.worker = :worker
    RETURNING claim.id, claim.fence, report.note
), noted AS (
    INSERT INTO standfast.note (id, fence, note) SELECT id, fence, note FROM reported WHERE note IS NOT NULL
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, note = excluded.note
), silent AS (
    DELETE FROM standfast.note AS note USING reported
    WHERE note.id = ANY (ARRAY[reported.id]) AND reported.note IS NULL
)
SELECT id::text, fence FROM reported;

-- name: complete
-- takes: now bigint, worker text, ids uuid[], fences bigint[], times bigint[], results bytea[], keeps bigint[]
-- End claims of a worker with success: all that their history needs is in their outcome. `keeps` is for how long
-- each result is kept, NULL for ever, and NULL in place of a list where that holds for all. What is left to do is
-- noted for `settle_completed`, until the transaction ends.
WITH {moment}, gone AS (
    DELETE FROM standfast.claim AS claim
    USING unnest(
        (SELECT :ids), (SELECT :fences), (SELECT :times), (SELECT :results), (SELECT :keeps)
    ) AS done (id, fence, started_at, result, keep)
    WHERE claim.id = ANY (ARRAY[done.id]) AND claim.fence - done.fence = 0 AND claim.worker = :worker
    RETURNING claim.id, claim.queue, claim.fence, claim.worker, claim.run_at, claim.attempt, claim.crashes,
        claim.alone, claim.cancel_requested, claim.replaced, claim.progress_done, claim.progress_total,
        coalesce(done.started_at, claim.started_at) AS started_at, done.result,
        (SELECT now FROM moment) + done.keep AS result_until
), ended AS (
    INSERT INTO standfast.outcome (id, state, queue, fence, worker, run_at, started_at, finished_at, attempt, crashes,
        alone, cancel_requested, progress_done, progress_total, result, result_until)
    SELECT id, {completed}, queue, fence, worker, run_at, started_at, (SELECT now FROM moment), attempt, crashes,
        alone, cancel_requested, progress_done, progress_total, result, result_until
    FROM gone
), faded AS (
    INSERT INTO standfast.fading (until_at, id)
    SELECT result_until, id FROM gone
    WHERE :keeps IS NOT NULL AND result_until IS NOT NULL AND result IS NOT NULL
), count AS MATERIALIZED (
    SELECT queue, count(*) AS jobs, count(*) FILTER (WHERE replaced) AS awaited FROM gone GROUP BY queue
), counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, {completed}, jobs FROM count
)
SELECT
    set_config('standfast_finish.left_over', CASE sum(jobs) WHEN cardinality(:ids) THEN 'no' ELSE 'yes' END, true),
    set_config('standfast_finish.awaited', CASE WHEN sum(awaited) > 0 THEN 'yes' ELSE 'no' END, true)
FROM count;

-- name: settle_completed
-- takes: worker text, ids text, fences text
-- What `complete` left to do for the same claims, mostly nothing: frees who waited for them, and tells how many
-- those were; and the places in the list of those that were not valid, nor recorded before. The lists come as text,
-- which is read only if they are needed.
WITH ended AS (
    SELECT id
    FROM unnest((SELECT CASE current_setting('standfast_finish.awaited') WHEN 'yes' THEN :ids::uuid[] END))
        AS listed (id)
), freed AS (
    {freed} RETURNING waiting.id
), asked AS (
    SELECT id, fence, place
    FROM unnest(
        (SELECT CASE current_setting('standfast_finish.left_over') WHEN 'yes' THEN :ids::uuid[] END),
        (SELECT CASE current_setting('standfast_finish.left_over') WHEN 'yes' THEN :fences::bigint[] END)
    ) WITH ORDINALITY AS listed (id, fence, place)
)
SELECT (SELECT count(*) FROM freed),
    ARRAY(SELECT asked.place FROM asked WHERE (asked.id, asked.fence) NOT IN ({recorded}));

-- name: free_replacements
-- takes: ids uuid[]
-- Free who waited for the end of jobs, which have ended.
WITH ended AS (SELECT id FROM unnest((SELECT :ids)) AS listed (id)) {freed};

-- name: recorded
-- takes: worker text, ids uuid[]
-- The claims of these jobs that the worker itself ended earlier, by job and fence.
WITH asked AS (SELECT id FROM unnest((SELECT :ids)) AS listed (id))
SELECT ended.id::text, ended.fence FROM ({recorded}) AS ended (id, fence);

-- name: claimed_jobs
-- takes: now bigint, worker text, ids uuid[], fences bigint[]
-- Those of the listed claims that the worker has, locked, and before each the time.
WITH {moment}
SELECT (SELECT now FROM moment), {claimed_columns}
FROM unnest((SELECT :ids), (SELECT :fences)) AS asked (id, fence)
JOIN standfast.claim AS claim ON claim.id = ANY (ARRAY[asked.id]) AND claim.fence - asked.fence = 0
    AND claim.worker = :worker
{job_of_claim}
ORDER BY asked.id FOR UPDATE OF claim;

-- name: unnamed_claims
-- takes: now bigint, worker text, closed_call bigint, ids uuid[], fences bigint[]
-- The claims of a worker of calls up to a closed one that are not listed, locked, and before each the time.
WITH {moment}
SELECT (SELECT now FROM moment), {claimed_columns}
FROM standfast.claim AS claim
{job_of_claim}
WHERE claim.worker = :worker AND claim.call <= :closed_call AND NOT EXISTS (
    SELECT FROM unnest((SELECT :ids), (SELECT :fences)) AS named (id, fence)
    WHERE named.id = claim.id AND named.fence = claim.fence
)
ORDER BY claim.id FOR UPDATE OF claim;

-- name: claims_of
-- takes: worker text, how text
-- Every claim of a worker, locked, and how often each brought down a process of its own.
SELECT (
    SELECT coalesce(sum({number}), 0)::integer FROM standfast.attempt AS attempt
    WHERE attempt.id = claim.id AND attempt.how = :how
), {claimed_columns}
FROM standfast.claim AS claim
{job_of_claim}
WHERE claim.worker = :worker
ORDER BY claim.id FOR UPDATE OF claim;

-- name: groups_of
-- takes: worker text
-- The groups of the suspects among the claims of a worker.
SELECT suspect.id::text, suspect.size FROM standfast.claim AS claim
JOIN standfast.suspect AS suspect ON suspect.id = claim.id
WHERE claim.worker = :worker AND claim.alone;

-- name: group
-- takes: ids uuid[], sizes integer[]
-- Note the groups of suspects.
INSERT INTO standfast.suspect AS suspect (id, size) SELECT id, size FROM unnest(:ids, :sizes) AS told (id, size)
ON CONFLICT (id) DO UPDATE SET size = excluded.size;

-- name: record_attempts
-- takes: now bigint, ids uuid[], fences bigint[], workers text[], times bigint[], hows text[]
-- takes: errors text[], tracebacks text[], logs text[], ended_bys text[]
-- Write how claims ended into the history.
INSERT INTO standfast.attempt (id, fence, worker, started_at, ended_at, how, error, traceback, log, ended_by)
SELECT id, fence, worker, started_at, :now, how, error, traceback, log, ended_by
FROM unnest(
    :ids, :fences, :workers, :times, :hows, :errors, :tracebacks, :logs, :ended_bys
) AS ended (id, fence, worker, started_at, how, error, traceback, log, ended_by);

-- name: fold_attempts
-- takes: ids uuid[], firsts integer[], lasts integer[]
-- Let one row for each kind stand for the claims between two of jobs: the last of the kind, which then has no worker
-- and `ended_by` 'folded', and says in `log` how many there are.
WITH kind AS MATERIALIZED (
    SELECT attempt.id, attempt.how, max(attempt.fence) AS fence, min(attempt.started_at) AS started_at,
        max(attempt.ended_at) AS ended_at, sum({number}) AS number, listed.first, listed.last
    FROM unnest(:ids, :firsts, :lasts) AS listed (id, first, last)
    JOIN standfast.attempt AS attempt ON attempt.id = listed.id AND attempt.fence > first AND attempt.fence <= last
    GROUP BY attempt.id, attempt.how, listed.first, listed.last
), forgotten AS (
    DELETE FROM standfast.attempt AS attempt USING kind
    WHERE attempt.id = kind.id AND attempt.fence > kind.first AND attempt.fence < kind.fence
        AND attempt.how = kind.how
)
UPDATE standfast.attempt AS attempt
SET worker = '', started_at = kind.started_at, ended_at = kind.ended_at, error = NULL, traceback = NULL,
    log = kind.number::text, ended_by = 'folded'
FROM kind WHERE attempt.id = kind.id AND attempt.fence = kind.fence;

-- name: end_for_good
-- takes: now bigint, ids uuid[], states text[], reasons text[], times bigint[], attempts integer[], crashes integer[]
-- takes: alones boolean[], errors text[], results bytea[], result_untils bigint[]
-- Make claimed jobs final; who had them last stays known.
WITH gone AS (
    DELETE FROM standfast.claim AS claim
    USING unnest(
        (SELECT :ids), (SELECT :states), (SELECT :reasons), (SELECT :times), (SELECT :attempts),
        (SELECT :crashes), (SELECT :alones), (SELECT :errors), (SELECT :results),
        (SELECT :result_untils)
    ) AS done (id, state, reason, started_at, attempt, crashes, alone, error, result, result_until)
    WHERE claim.id = ANY (ARRAY[done.id])
    RETURNING claim.queue, claim.fence, claim.worker, claim.run_at, claim.cancel_requested, claim.progress_done,
        claim.progress_total, done.*
), ended AS (
    INSERT INTO standfast.outcome (id, state, reason, queue, fence, worker, run_at, started_at, finished_at, attempt,
        crashes, alone, cancel_requested, error, progress_done, progress_total, result, result_until)
    SELECT id, state, reason, queue, fence, worker, run_at, started_at, :now, attempt, crashes, alone,
        cancel_requested, error, progress_done, progress_total, result, result_until
    FROM gone
), faded AS (
    INSERT INTO standfast.fading (until_at, id)
    SELECT result_until, id FROM gone WHERE result_until IS NOT NULL AND result IS NOT NULL
)
INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, state, count(*) FROM gone GROUP BY queue, state;

-- name: give_back
-- takes: ids uuid[], blocked boolean[], reasons text[], run_ats bigint[], attempts integer[], crashes integer[]
-- takes: alones boolean[], errors text[]
-- Let claimed jobs wait again, in nobody's hands.
WITH gone AS (
    DELETE FROM standfast.claim AS claim
    USING unnest(
        (SELECT :ids), (SELECT :blocked), (SELECT :reasons), (SELECT :run_ats),
        (SELECT :attempts), (SELECT :crashes), (SELECT :alones), (SELECT :errors)
    ) AS back (id, blocked, reason, run_at, attempt, crashes, alone, error)
    WHERE claim.id = ANY (ARRAY[back.id])
    RETURNING claim.queue, claim.priority, claim.seq, claim.fence, back.*
)
INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, fence, attempt, crashes, alone, blocked,
    reason, error)
SELECT gone.queue, gone.priority, gone.run_at, gone.seq, gone.id, job.task, job.version, gone.fence, gone.attempt,
    gone.crashes, gone.alone, gone.blocked, gone.reason, gone.error
FROM gone CROSS JOIN LATERAL (
    SELECT asked_for.task, asked_for.version FROM standfast.job AS asked_for WHERE asked_for.id = gone.id OFFSET 0
) AS job;
