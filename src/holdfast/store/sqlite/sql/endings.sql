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
-- End a claim with success: all that its history needs stays in this row.
UPDATE holdfast_job
SET state = {completed}, finished_at = ?4, started_at = coalesce(?5, started_at), result = ?6, error = NULL
WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

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
    started_at, error, queue
FROM holdfast_job WHERE id = ?1 AND fence = ?2 AND worker = ?3 AND state IN {claimed};

-- name: claims_of
-- Every claim of a worker, with all that decides how each ends.
SELECT seq, id, fence, worker, call, state, run_at, attempt, crashes, max_attempts, alone, cancel_requested,
    started_at, error, queue
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
    started_at = ?10
WHERE seq = ?1;

-- name: record_attempt
-- Write how a claim ended into the history.
INSERT INTO holdfast_attempt (job, fence, worker, started_at, ended_at, how, error, traceback, ended_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: crashes_alone
-- How often each claimed job of a worker brought down a process of its own.
SELECT job.id, count(*) FROM holdfast_job AS job
JOIN holdfast_attempt AS attempt ON attempt.job = job.seq AND attempt.how = ?2
WHERE job.worker = ?1 AND job.state IN {claimed} GROUP BY job.id;
