-- The fenced writes of a claim, and how a claim ends.

-- part: this_claim
-- This very claim, if it is the valid one of its job.
id = :job AND fence = :fence AND worker = :worker AND state IN {claimed}

-- part: claimed_columns
-- A claim with all that decides how it ends, as ClaimedRow has it. The casts are for what someone changed by hand.
seq, id, fence, worker, CAST(call AS INTEGER), state, CAST(run_at AS INTEGER), CAST(attempt AS INTEGER),
    CAST(crashes AS INTEGER), CAST(max_attempts AS INTEGER), CAST(alone AS INTEGER), cancel_requested, started_at, error,
    queue, task, key, replaced

-- part: number
-- How many claims a row of the history stands for.
CASE ended_by WHEN 'folded' THEN CAST(log AS INTEGER) ELSE 1 END

-- part: folded
-- Which of the claims between the first and the last of a job's history stand for those that ended as they did: the
-- last of each kind. It then has no worker and `ended_by` 'folded', and says in `log` how many there are.
SELECT how, max(fence) AS fence, min(started_at) AS started_at, max(ended_at) AS ended_at, sum({number}) AS number
FROM standfast_attempt WHERE job = :seq AND fence > :first AND fence <= :last GROUP BY how

-- name: start
-- takes: job, fence, worker, started_at
-- Mark a claim as running; a claim that runs already keeps its time.
UPDATE standfast_job SET state = {running}, started_at = coalesce(started_at, :started_at)
WHERE {this_claim};

-- name: progress
-- takes: job, fence, worker, done, total, note
-- Note how far the job of a claim is.
UPDATE standfast_job SET progress_done = :done, progress_total = :total, progress_note = :note
WHERE {this_claim};

-- name: complete
-- takes: completions, worker, now
-- End claims of a worker with success: all that their history needs stays in these rows. The completions (JSON)
-- have for each its id, fence, start, result and, if that is not for ever, until when it is kept. One statement for
-- all of them, because between two the thread would have to wait for the interpreter. The plus signs keep SQLite
-- from walking all claims of the worker for each. A job for whose end another waits is left out: it takes the
-- longer way, and the others need not look for who might wait.
UPDATE standfast_job
SET state = {completed}, finished_at = :now, started_at = coalesce(json_extract(done.value, '$[2]'), started_at),
    result = CAST(json_extract(done.value, '$[3]') AS BLOB), result_until = json_extract(done.value, '$[4]'),
    error = NULL
FROM json_each(:completions) AS done
WHERE standfast_job.id = json_extract(done.value, '$[0]') AND standfast_job.fence = json_extract(done.value, '$[1]')
    AND +standfast_job.worker = :worker AND +standfast_job.state IN {claimed} AND standfast_job.replaced = 0;

-- name: note_fading
-- takes: job
-- Let the result of a job be found when its time is over; what was noted or forgotten before stays so.
INSERT INTO standfast_fading (until_at, job)
SELECT result_until, id FROM standfast_job WHERE id = :job AND result_until IS NOT NULL AND result IS NOT NULL
ON CONFLICT (until_at, job) DO NOTHING;

-- name: claim_is_valid
-- takes: job, fence, worker
-- Tell whether this very claim is the valid one of its job.
SELECT count(*) FROM standfast_job WHERE {this_claim};

-- name: was_finished
-- takes: job, fence, worker
-- Tell whether this worker itself ended this claim, now or earlier.
SELECT (
    SELECT count(*) FROM standfast_job WHERE id = :job AND fence = :fence AND worker = :worker AND state = {completed}
) + (
    SELECT count(*) FROM standfast_attempt
    WHERE job = (SELECT seq FROM standfast_job WHERE id = :job) AND fence = :fence AND worker = :worker
        AND ended_by = 'finish'
);

-- name: claimed_job
-- takes: job, fence, worker
-- A claim with all that decides how it ends.
SELECT {claimed_columns} FROM standfast_job WHERE {this_claim};

-- name: claims_of
-- takes: worker
-- Every claim of a worker, with all that decides how each ends.
SELECT {claimed_columns} FROM standfast_job WHERE worker = :worker AND state IN {claimed} ORDER BY seq;

-- name: give_back
-- takes: seq, state, reason, run_at, attempt, crashes, alone, error
-- Let a claimed job wait again, in nobody's hands.
UPDATE standfast_job
SET state = :state, reason = :reason, run_at = :run_at, attempt = :attempt, crashes = :crashes, alone = :alone,
    error = :error, worker = NULL, finished_at = NULL, progress_done = NULL, progress_total = NULL, progress_note = NULL
WHERE seq = :seq;

-- name: end_for_good
-- takes: seq, state, reason, now, attempt, crashes, alone, error, result, result_until, started_at
-- Make a claimed job final; who had it last stays known.
UPDATE standfast_job
SET state = :state, reason = :reason, finished_at = :now, attempt = :attempt, crashes = :crashes, alone = :alone,
    error = :error, result = :result, result_until = :result_until, started_at = :started_at
WHERE seq = :seq;

-- name: free_replacement
-- takes: task, key, ended, now
-- Let the job that waited for the end of another, and has its key since, wait for its time as any other.
UPDATE standfast_job
SET state = CASE WHEN run_at <= :now THEN {ready} ELSE {scheduled} END, reason = NULL, after = NULL
WHERE id = (SELECT job FROM standfast_key WHERE task = :task AND key = :key) AND state = {blocked} AND after = :ended;

-- name: record_attempt
-- takes: seq, fence, worker, started_at, ended_at, how, error, traceback, log, ended_by
-- Write how a claim ended into the history.
INSERT INTO standfast_attempt (job, fence, worker, started_at, ended_at, how, error, traceback, log, ended_by)
VALUES (:seq, :fence, :worker, :started_at, :ended_at, :how, :error, :traceback, :log, :ended_by);

-- name: fold_attempts
-- takes: seq, first, last
-- Let one row for each kind stand for the claims between two.
UPDATE standfast_attempt
SET worker = '', started_at = kind.started_at, ended_at = kind.ended_at, error = NULL, traceback = NULL,
    log = kind.number, ended_by = 'folded'
FROM ({folded}) AS kind
WHERE standfast_attempt.job = :seq AND standfast_attempt.fence = kind.fence;

-- name: forget_folded
-- takes: seq, first, last
-- Forget the claims between two for which others stand since `fold_attempts`.
DELETE FROM standfast_attempt
WHERE job = :seq AND fence > :first AND fence <= :last AND fence NOT IN (
    SELECT max(fence) FROM standfast_attempt WHERE job = :seq AND fence > :first AND fence <= :last GROUP BY how
);

-- name: crashes_alone
-- takes: worker, how
-- How often each claimed job of a worker brought down a process of its own.
SELECT job.id, sum({number}) FROM standfast_job AS job
JOIN standfast_attempt AS attempt ON attempt.job = job.seq AND attempt.how = :how
WHERE job.worker = :worker AND job.state IN {claimed} GROUP BY job.id;

-- name: faded
-- takes: now, limit
-- Take the results off the list whose time is over: oldest first, so many at once at most.
DELETE FROM standfast_fading
WHERE (until_at, job) IN (
    SELECT until_at, job FROM standfast_fading WHERE until_at <= :now ORDER BY until_at LIMIT :limit
)
RETURNING job;

-- name: forget_result
-- takes: job
-- Forget the result of a job; until when it was kept stays known.
UPDATE standfast_job SET result = NULL WHERE id = :job AND result IS NOT NULL;
