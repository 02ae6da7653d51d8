-- The fenced writes of a claim, and how a claim ends.

-- name: start
-- Mark a claim as running; a claim that runs already keeps its time.
UPDATE holdfast_job SET state = {running}, started_at = coalesce(started_at, ?4)
WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

-- name: progress
-- Note how far the job of a claim is.
UPDATE holdfast_job SET progress_done = ?4, progress_total = ?5
WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

-- name: complete
-- End claims of worker ?2 with success: all that their history needs stays in these rows. ?1 (JSON) has for each its id,
-- fence, start, result and, if that is not for ever, until when it is kept. One statement for all of them, because
-- between two the thread would have to wait for the interpreter. The plus signs keep SQLite from walking all claims of
-- the worker for each. A job for whose end another waits is left out: it takes the longer way, and the others need not
-- look for who might wait.
UPDATE holdfast_job
SET state = {completed}, finished_at = ?3, started_at = coalesce(json_extract(done.value, '$[2]'), started_at),
    result = CAST(json_extract(done.value, '$[3]') AS BLOB), result_until = json_extract(done.value, '$[4]'),
    error = NULL
FROM json_each(?1) AS done
WHERE holdfast_job.id = json_extract(done.value, '$[0]') AND holdfast_job.fence = json_extract(done.value, '$[1]')
    AND +holdfast_job.worker = ?2 AND +holdfast_job.state IN {claimed} AND holdfast_job.replaced = 0;

-- name: note_fading
-- Let the result of a job be found when its time is over; what was noted or forgotten before stays so.
INSERT INTO holdfast_fading (until_at, job)
SELECT result_until, id FROM holdfast_job WHERE id = ?1 AND result_until IS NOT NULL AND result IS NOT NULL
ON CONFLICT (until_at, job) DO NOTHING;

-- name: claim_is_valid
-- Tell whether this very claim is the valid one of its job.
SELECT count(*) FROM holdfast_job WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

-- name: was_finished
-- Tell whether this worker itself ended this claim, now or earlier.
SELECT (
    SELECT count(*) FROM holdfast_job WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state = {completed}
) + (
    SELECT count(*) FROM holdfast_attempt
    WHERE job = (SELECT seq FROM holdfast_job WHERE id = ?1) AND fence = ?2 AND worker = ?3 AND ended_by = 'finish'
);

-- name: claimed_job
-- A claim with all that decides how it ends.
SELECT seq, id, fence, worker, call, state, run_at, attempt, crashes, max_attempts, alone, cancel_requested,
    started_at, error, queue, task, key, replaced
FROM holdfast_job WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

-- name: claims_of
-- Every claim of a worker, with all that decides how each ends.
SELECT seq, id, fence, worker, call, state, run_at, attempt, crashes, max_attempts, alone, cancel_requested,
    started_at, error, queue, task, key, replaced
FROM holdfast_job WHERE worker = ?1 AND state IN {claimed} ORDER BY seq;

-- name: give_back
-- Let a claimed job wait again, in nobody's hands.
UPDATE holdfast_job
SET state = ?2, reason = ?3, run_at = ?4, attempt = ?5, crashes = ?6, alone = ?7, error = ?8,
    worker = NULL, finished_at = NULL, progress_done = NULL, progress_total = NULL
WHERE seq = ?1;

-- name: end_for_good
-- Make a claimed job final; who had it last stays known.
UPDATE holdfast_job
SET state = ?2, reason = ?3, finished_at = ?4, attempt = ?5, crashes = ?6, alone = ?7, error = ?8, result = ?9,
    result_until = ?10, started_at = ?11
WHERE seq = ?1;

-- name: free_replacement
-- Let the job that waited for the end of job ?3, and has its key ?2 of task ?1 since, wait for its time as any other.
UPDATE holdfast_job
SET state = CASE WHEN run_at <= ?4 THEN {ready} ELSE {scheduled} END, reason = NULL, after = NULL
WHERE id = (SELECT job FROM holdfast_key WHERE task = ?1 AND key = ?2) AND state = {blocked} AND after = ?3;

-- name: record_attempt
-- Write how a claim ended into the history.
INSERT INTO holdfast_attempt (job, fence, worker, started_at, ended_at, how, error, traceback, log, ended_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: crashes_alone
-- How often each claimed job of a worker brought down a process of its own.
SELECT job.id, count(*) FROM holdfast_job AS job
JOIN holdfast_attempt AS attempt ON attempt.job = job.seq AND attempt.how = ?2
WHERE job.worker = ?1 AND job.state IN {claimed} GROUP BY job.id;

-- name: faded
-- Take the results off the list whose time is over: oldest first, so many at once at most.
DELETE FROM holdfast_fading
WHERE (until_at, job) IN (SELECT until_at, job FROM holdfast_fading WHERE until_at <= ?1 ORDER BY until_at LIMIT ?2)
RETURNING job;

-- name: forget_result
-- Forget the result of a job; until when it was kept stays known.
UPDATE holdfast_job SET result = NULL WHERE id = ?1 AND result IS NOT NULL;
