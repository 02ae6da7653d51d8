-- How jobs that are over and done with are forgotten. There is no index by time of their end, which every
-- completion would have to pay for: jobs are walked in the order of their arrival, a stretch at a time.

-- name: over
-- takes: start, long_ago, now, stretch, limit
-- Of so many jobs after the start: those that completed or were cancelled long ago, and whose key is kept no
-- longer.
SELECT seq, id, task, key FROM (SELECT * FROM standfast_job WHERE seq > :start ORDER BY seq LIMIT :stretch)
WHERE state IN ({completed}, {cancelled}) AND finished_at <= :long_ago
    AND (key IS NULL OR state = {cancelled} OR finished_at + keep_key <= :now)
ORDER BY seq LIMIT :limit;

-- name: stretch_end
-- takes: start, stretch
-- Where the stretch of so many jobs after the start ends, and how many there are.
SELECT max(seq), count(*) FROM (SELECT seq FROM standfast_job WHERE seq > :start ORDER BY seq LIMIT :stretch);

-- name: old_dead
-- takes: start, long_ago, stretch, limit
-- Of so many dead jobs after the start: those that died long ago.
SELECT seq, id, task, key FROM (
    SELECT seq, id, task, key, finished_at FROM standfast_job INDEXED BY standfast_dead
    WHERE state = {dead} AND id > :start ORDER BY id LIMIT :stretch
)
WHERE finished_at <= :long_ago ORDER BY id LIMIT :limit;

-- name: dead_stretch_end
-- takes: start, stretch
-- Where the stretch of so many dead jobs after the start ends, how many there are, and when the last one came.
SELECT max(id), count(*), created_at FROM (
    SELECT id, created_at FROM standfast_job INDEXED BY standfast_dead
    WHERE state = {dead} AND id > :start ORDER BY id LIMIT :stretch
);

-- name: surplus_dead
-- takes: keep, limit
-- The oldest dead jobs, if there are more than are kept.
SELECT seq, id, task, key FROM standfast_job INDEXED BY standfast_dead
WHERE state = {dead} AND id <= (
    SELECT id FROM standfast_job INDEXED BY standfast_dead WHERE state = {dead} ORDER BY id DESC LIMIT 1 OFFSET :keep
)
ORDER BY id LIMIT :limit;

-- name: forget_tags
-- takes: seq, job
-- Let a job no longer be found by its tags.
DELETE FROM standfast_tag
WHERE job = :job AND tag IN (
    SELECT tag.value FROM standfast_job AS job CROSS JOIN json_each(job.tags) AS tag WHERE job.seq = :seq
);

-- name: forget_fading
-- takes: seq, job
-- Take the result of a job off the list of those that are kept for a time.
DELETE FROM standfast_fading
WHERE until_at = (SELECT result_until FROM standfast_job WHERE seq = :seq) AND job = :job;

-- name: forget_key
-- takes: task, key, job
-- Forget which job had a key last, if it was this one.
DELETE FROM standfast_key WHERE task = :task AND key = :key AND job = :job;

-- name: forget_attempts
-- takes: seq
-- Forget the history of a job.
DELETE FROM standfast_attempt WHERE job = :seq;

-- name: forget_memos
-- takes: seq
-- Forget what a job has written down and was sent.
DELETE FROM standfast_memo WHERE job = :seq;

-- name: shrink
-- takes: seqs
-- Count jobs (JSON) no more that are about to be forgotten.
UPDATE standfast_size SET jobs = jobs - gone.number
FROM (
    SELECT job.queue AS name, count(*) AS number
    FROM json_each(:seqs) AS over CROSS JOIN standfast_job AS job ON job.seq = over.value GROUP BY job.queue
) AS gone
WHERE queue = gone.name;

-- name: forget_job
-- takes: seq
-- Forget a job.
DELETE FROM standfast_job WHERE seq = :seq;
