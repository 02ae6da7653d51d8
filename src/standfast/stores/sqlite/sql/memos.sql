-- What jobs write down and are sent.

-- name: valid_claims
-- takes: claims, worker
-- Which of the claims (JSON: pairs of id and fence) are valid ones of the worker, with the seq of the job. The plus
-- signs keep SQLite from walking all claims of the worker for each.
SELECT job.id, job.fence, job.seq
FROM json_each(:claims) AS claim
CROSS JOIN standfast_job AS job
    ON job.id = json_extract(claim.value, '$[0]') AND job.fence = json_extract(claim.value, '$[1]')
WHERE +job.worker = :worker AND +job.state IN {claimed};

-- name: write_memo
-- takes: seq, name, fence, number, body
-- Write a memo, unless it was written by a later claim or by a later save of this one.
INSERT INTO standfast_memo (job, name, fence, number, body) VALUES (:seq, :name, :fence, :number, :body)
ON CONFLICT (job, name) DO UPDATE SET fence = excluded.fence, number = excluded.number, body = excluded.body
WHERE (standfast_memo.fence, standfast_memo.number) < (excluded.fence, excluded.number);

-- name: memos
-- takes: job
-- The memos of a job by name.
SELECT name, CAST(body AS BLOB) FROM standfast_memo
WHERE job = (SELECT seq FROM standfast_job WHERE id = :job) ORDER BY name;

-- name: signals_sent
-- takes: seq, name
-- How many signals a job was sent, and whether one of this name is among them.
SELECT count(*), coalesce(max(name = :name), 0) FROM standfast_memo
WHERE job = :seq AND name >= 'signal:' AND name < 'signal;';

-- name: keep_signal
-- takes: seq, name, body
-- Keep a signal for a job; one that has come before, and may be taken, stays as it is.
INSERT INTO standfast_memo (job, name, fence, number, body) VALUES (:seq, :name, 0, 0, :body)
ON CONFLICT (job, name) DO NOTHING;

-- name: end_wait
-- takes: seq, reason, prefix, now
-- Let a scheduled job run now if it waits for a signal that has come and is not taken. The names of its memos begin
-- with the prefix, whose last letter is a colon: a semicolon is what comes next.
UPDATE standfast_job SET state = {ready}, run_at = :now, reason = NULL
WHERE seq = :seq AND reason = :reason AND EXISTS (
    SELECT 1 FROM standfast_memo AS memo
    WHERE memo.job = :seq AND memo.name >= :prefix AND memo.name < rtrim(:prefix, ':') || ';' AND length(memo.body) > 0
);
