-- How jobs that are over and done with are forgotten. There is no index by time of their end, which every completion would
-- have to pay for: jobs are walked in the order of their arrival, a stretch at a time.

-- name: over
-- Of the ?4 jobs after seq ?1: those that completed or were cancelled by ?2, and whose key is not kept beyond ?3.
SELECT seq, id, task, key FROM (SELECT * FROM holdfast_job WHERE seq > ?1 ORDER BY seq LIMIT ?4)
WHERE state IN ({completed}, {cancelled}) AND finished_at <= ?2
    AND (key IS NULL OR state = {cancelled} OR finished_at + keep_key <= ?3)
ORDER BY seq LIMIT ?5;

-- name: stretch_end
-- Where the stretch of the ?2 jobs after seq ?1 ends, and how many there are.
SELECT max(seq), count(*) FROM (SELECT seq FROM holdfast_job WHERE seq > ?1 ORDER BY seq LIMIT ?2);

-- name: forget_tags
-- Let a job no longer be found by its tags.
DELETE FROM holdfast_tag
WHERE job = ?2 AND tag IN (
    SELECT tag.value FROM holdfast_job AS job CROSS JOIN json_each(job.tags) AS tag WHERE job.seq = ?1
);

-- name: forget_fading
-- Take the result of a job off the list of those that are kept for a time.
DELETE FROM holdfast_fading
WHERE until_at = (SELECT result_until FROM holdfast_job WHERE seq = ?1) AND job = ?2;

-- name: forget_key
-- Forget which job had a key last, if it was this one.
DELETE FROM holdfast_key WHERE task = ?1 AND key = ?2 AND job = ?3;

-- name: forget_attempts
-- Forget the history of a job.
DELETE FROM holdfast_attempt WHERE job = ?1;

-- name: forget_job
-- Forget a job.
DELETE FROM holdfast_job WHERE seq = ?1;
