-- What jobs write down, and the signals that others send them.
--
-- Wherever a job is, one row says so, and who moves the job deletes that row. A signal keeps the row until its memo is
-- committed. So between its look at the job and its commit no worker can let the job wait for that very signal: a
-- finish that comes second waits, and sees the memo; a signal that comes second waits, finds the row gone, and looks
-- again.

-- name: save
-- takes: worker text, ids uuid[], fences bigint[]
-- takes: of_ids uuid[], of_fences bigint[], names text[], numbers bigint[], bodies bytea[]
-- Write memos of claims of a worker, but for those that something later was written over. Tells which claims were
-- valid; they stay so until the transaction ends, which none of their other writes has to wait for.
WITH held AS MATERIALIZED (
    SELECT claim.id, claim.fence
    FROM unnest((SELECT :ids), (SELECT :fences)) AS asked (id, fence)
    JOIN standfast.claim AS claim ON claim.id = ANY (ARRAY[asked.id]) AND claim.fence - asked.fence = 0
        AND claim.worker = :worker
    ORDER BY asked.id FOR KEY SHARE OF claim
), written AS (
    INSERT INTO standfast.memo AS memo (id, name, fence, number, body)
    SELECT said.id, said.name, said.fence, said.number, said.body
    FROM unnest(:of_ids, :of_fences, :names, :numbers, :bodies) AS said (id, fence, name, number, body)
    JOIN held ON held.id = said.id AND held.fence = said.fence
    ON CONFLICT (id, name) DO UPDATE
    SET fence = excluded.fence, number = excluded.number, body = excluded.body
    WHERE (memo.fence, memo.number) < (excluded.fence, excluded.number)
)
SELECT held.id::text, held.fence FROM held;

-- name: hold_claims
-- takes: worker text, ids uuid[], fences bigint[]
-- Take claims for the transaction that ends them, before it writes their last memos: another save that came between
-- would wait for those memos, and the end of the claim for that save.
SELECT FROM standfast.claim AS claim
JOIN unnest((SELECT :ids), (SELECT :fences)) AS asked (id, fence)
    ON claim.id = ANY (ARRAY[asked.id]) AND claim.fence - asked.fence = 0
WHERE claim.worker = :worker
ORDER BY asked.id FOR UPDATE OF claim;

-- name: memos
-- takes: job uuid
-- The memos of a job by name.
SELECT name, body FROM standfast.memo WHERE id = :job ORDER BY name;

-- name: signals_sent
-- takes: job uuid, name text
-- How many signals a job was sent, and whether one of this name is among them.
SELECT count(*), coalesce(bool_or(name = :name), false) FROM standfast.memo
WHERE id = :job AND name >= 'signal:' AND name < 'signal;';

-- name: signal_claimed
-- takes: job uuid, name text, body bytea
-- Write the memo of a signal to a job that a worker has, unless it is there. Tells by a row whether one has it.
WITH here AS MATERIALIZED (
    SELECT id FROM standfast.claim WHERE id = :job FOR KEY SHARE
), sent AS (
    INSERT INTO standfast.memo (id, name, fence, number, body) SELECT id, :name, 0, 0, :body FROM here
    ON CONFLICT (id, name) DO NOTHING
)
SELECT true FROM here;

-- name: signal_waiting
-- takes: now bigint, job uuid, name text, body bytea, reason text
-- The same of a job that nobody has in hand; and if it waits for this signal, by its reason, it is due. A fresh one
-- becomes one that waits: no fresh row may be locked and left (see claims.sql). A memo that was there before wakes
-- nobody: it did so then, or was taken.
WITH {moment}, was_fresh AS (
    DELETE FROM standfast.fresh AS fresh USING standfast.job AS job
    WHERE job.id = :job AND fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    RETURNING fresh.queue, fresh.priority, fresh.run_at, fresh.seq, fresh.id, job.task, job.version
), moved AS (
    INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version) SELECT * FROM was_fresh
), is_waiting AS MATERIALIZED (
    SELECT id FROM standfast.waiting WHERE id = :job FOR KEY SHARE
), here AS MATERIALIZED (
    SELECT id FROM was_fresh UNION ALL SELECT id FROM is_waiting
), sent AS (
    INSERT INTO standfast.memo (id, name, fence, number, body) SELECT id, :name, 0, 0, :body FROM here
    ON CONFLICT (id, name) DO NOTHING
    RETURNING id
), woken AS (
    UPDATE standfast.waiting AS waiting SET run_at = moment.now, reason = NULL
    FROM sent CROSS JOIN moment
    WHERE waiting.id = sent.id AND NOT waiting.blocked AND waiting.run_at > moment.now AND waiting.reason = :reason
        AND octet_length(:body) > 0
)
SELECT true FROM here;

-- name: wake_signalled
-- takes: now bigint, ids uuid[], prefixes text[]
-- Let those of these jobs wait no longer of which there is a signal that is not taken: a memo whose name begins so.
-- They were given back in the statement before this one, and their claims locked before that.
UPDATE standfast.waiting AS waiting SET run_at = :now, reason = NULL
FROM unnest((SELECT :ids), (SELECT :prefixes)) AS suspended (id, prefix)
WHERE waiting.id = ANY (ARRAY[suspended.id]) AND EXISTS (
    SELECT FROM standfast.memo AS memo
    WHERE memo.id = suspended.id AND starts_with(memo.name, suspended.prefix) AND octet_length(memo.body) > 0
);
