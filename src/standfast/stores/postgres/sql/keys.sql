-- Where one job is, how it ends in nobody's hands, and who has a key. Who acts upon a look must see whether the act
-- found the job there: workers claim and finish meanwhile.

-- part: found
-- A job with where it is. One that is neither waiting nor claimed nor ended is fresh, and so ready.
SELECT job.id::text, job.task, job.key,
    CASE
        WHEN place.state IS NOT NULL THEN place.state
        WHEN place.run_at > moment.now THEN {scheduled}
        ELSE {ready}
    END,
    place.reason, place.finished_at, job.keep_key, place.after::text, moment.now
FROM moment CROSS JOIN standfast.job AS job
LEFT JOIN LATERAL (
    SELECT CASE WHEN waiting.blocked THEN {blocked} END AS state, waiting.reason, waiting.run_at,
        NULL::bigint AS finished_at, waiting.after
    FROM standfast.waiting AS waiting WHERE waiting.id = job.id
    UNION ALL
    SELECT CASE WHEN claim.running THEN {running} ELSE {held} END, NULL, claim.run_at, NULL, NULL
    FROM standfast.claim AS claim WHERE claim.id = job.id
    UNION ALL
    SELECT outcome.state, outcome.reason, outcome.run_at, outcome.finished_at, NULL
    FROM standfast.outcome AS outcome WHERE outcome.id = job.id
) AS place ON true

-- part: holders
-- The jobs that were last accepted with the keys of the tasks, as far as there are any.
SELECT taken.id FROM unnest(:tasks, :keys) AS asked (task, key)
JOIN standfast.key AS taken ON taken.task = asked.task AND taken.key = asked.key

-- name: look_up_job
-- takes: now bigint, job uuid
-- Where a job is.
WITH {moment}
{found}
WHERE job.id = :job;

-- name: withdraw
-- takes: now bigint, job uuid, reason text
-- Cancel a job for this reason, if nobody has it in hand. Tells so by a row.
WITH {moment},
was_fresh AS (
    DELETE FROM standfast.fresh AS fresh USING standfast.job AS job
    WHERE job.id = :job AND fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    RETURNING fresh.id, fresh.queue, fresh.run_at
),
was_waiting AS (
    DELETE FROM standfast.waiting WHERE id = :job
    RETURNING id, queue, run_at, fence, attempt, crashes, alone, error
),
gone AS (
    SELECT id, queue, run_at, 0 AS fence, 0 AS attempt, 0 AS crashes, false AS alone, NULL::text AS error
    FROM was_fresh
    UNION ALL
    SELECT * FROM was_waiting
),
ended AS (
    INSERT INTO standfast.outcome (id, state, reason, queue, fence, run_at, finished_at, attempt, crashes, alone,
        cancel_requested, error)
    SELECT id, {cancelled}, :reason, queue, fence, run_at, moment.now, attempt, crashes, alone, false, error
    FROM gone CROSS JOIN moment
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, {cancelled}, 1 FROM gone
)
SELECT true FROM gone;

-- name: withdraw_many
-- takes: now bigint, jobs uuid[]
-- Cancel jobs that nobody has in hand, but for those that are to replace a claimed one. Tells which.
WITH {moment},
was_fresh AS (
    DELETE FROM standfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT fresh.ctid FROM standfast.job AS job
        JOIN standfast.fresh AS fresh ON fresh.queue = job.queue AND fresh.priority = job.priority
            AND fresh.xid = job.xid AND fresh.seq = job.seq
        WHERE job.id = ANY (:jobs)
        FOR UPDATE OF fresh SKIP LOCKED
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.id, fresh.queue, fresh.run_at
),
was_waiting AS (
    DELETE FROM standfast.waiting WHERE id = ANY (ARRAY(
        SELECT id FROM standfast.waiting WHERE id = ANY (:jobs) AND after IS NULL FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, queue, run_at, fence, attempt, crashes, alone, error
),
gone AS (
    SELECT id, queue, run_at, 0 AS fence, 0 AS attempt, 0 AS crashes, false AS alone, NULL::text AS error
    FROM was_fresh
    UNION ALL
    SELECT * FROM was_waiting
),
ended AS (
    INSERT INTO standfast.outcome (id, state, reason, queue, fence, run_at, finished_at, attempt, crashes, alone,
        cancel_requested, error)
    SELECT id, {cancelled}, {requested}, queue, fence, run_at, moment.now, attempt, crashes, alone, false, error
    FROM gone CROSS JOIN moment
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, {cancelled}, count(*) FROM gone GROUP BY queue
)
SELECT id::text FROM gone;

-- name: lock_keys
-- takes: now bigint, tasks text[], keys text[]
-- Keep keys for this transaction: nobody else gives or takes them until it ends. Nothing comes back where the
-- transaction would not see what others committed while it waited. In their order, so that two transactions do not
-- wait for each other.
INSERT INTO standfast.key AS taken (task, key)
SELECT asked.task, asked.key FROM unnest(:tasks, :keys) AS asked (task, key)
WHERE current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
ORDER BY asked.task COLLATE "C", asked.key COLLATE "C"
ON CONFLICT (task, key) DO UPDATE SET id = taken.id
RETURNING standfast.present(:now);

-- name: set_apart
-- takes: tasks text[], keys text[], others uuid[]
-- Let the jobs that have the keys, and the others, wait among those that are not fresh, as far as nobody has locked
-- them. Who locks them then may leave them: no mark passes what waits.
WITH holder AS MATERIALIZED (
    {holders}
    UNION
    SELECT unnest(:others)
),
was_fresh AS (
    DELETE FROM standfast.fresh AS fresh USING (
        SELECT fresh.ctid AS row, job.task, job.version FROM holder JOIN standfast.job AS job ON job.id = holder.id
        JOIN standfast.fresh AS fresh ON fresh.queue = job.queue AND fresh.priority = job.priority
            AND fresh.xid = job.xid AND fresh.seq = job.seq
        ORDER BY fresh.id FOR UPDATE OF fresh SKIP LOCKED
    ) AS found
    WHERE fresh.ctid = found.row
    RETURNING fresh.queue, fresh.priority, fresh.run_at, fresh.seq, fresh.id, found.task, found.version
)
INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version) SELECT * FROM was_fresh;

-- name: lock_claimable
-- takes: tasks text[], keys text[], own uuid[], others uuid[]
-- Keep the jobs that have the keys, and the others, from being claimed, as far as they could be. But not the
-- caller's own jobs: no fresh row may be locked and left (see claims.sql). In the order of their ids, so that two
-- transactions do not wait for each other.
WITH holder AS MATERIALIZED (
    {holders}
    WHERE taken.id <> ALL (:own)
    UNION
    SELECT asked.id FROM unnest(:others) AS asked (id) WHERE asked.id <> ALL (:own)
),
fresh AS MATERIALIZED (
    SELECT fresh.id FROM holder JOIN standfast.job AS job ON job.id = holder.id
    JOIN standfast.fresh AS fresh ON fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    ORDER BY fresh.id FOR UPDATE OF fresh
),
waiting AS MATERIALIZED (
    SELECT waiting.id FROM holder JOIN standfast.waiting AS waiting ON waiting.id = holder.id
    WHERE waiting.after IS NULL
    ORDER BY waiting.id FOR UPDATE OF waiting
)
SELECT id FROM fresh UNION ALL SELECT id FROM waiting;

-- name: lock_claims
-- takes: tasks text[], keys text[], others uuid[]
-- Lock the claims that are in the way of who takes the keys, or cancels the others: those of the jobs that have
-- them, or of the jobs for whose end these wait. By id, as everyone does who locks several.
SELECT FROM standfast.claim AS claim WHERE claim.id = ANY (ARRAY(
    SELECT coalesce(waiting.after, holder.id) FROM (
        {holders}
        UNION ALL
        SELECT unnest(:others)
    ) AS holder
    LEFT JOIN standfast.waiting AS waiting ON waiting.id = holder.id
))
ORDER BY claim.id FOR UPDATE;

-- name: keys_given_back
-- takes: jobs uuid[]
-- The keys, with their tasks, that go back to others when these jobs are cancelled, which are to replace a claimed
-- one.
SELECT DISTINCT job.task, job.key FROM standfast.waiting AS waiting JOIN standfast.job AS job ON job.id = waiting.id
WHERE waiting.id = ANY (:jobs) AND waiting.after IS NOT NULL AND job.key IS NOT NULL;

-- name: key_holders
-- takes: now bigint, tasks text[], keys text[]
-- The jobs that were last accepted with the keys.
WITH {moment}
{found}
WHERE job.id = ANY (ARRAY(
    {holders}
));

-- name: give_keys
-- takes: tasks text[], keys text[], jobs uuid[]
-- Note which jobs have the keys from now on.
INSERT INTO standfast.key (task, key, id)
SELECT * FROM unnest(:tasks, :keys, :jobs) AS given (task, key, id)
ON CONFLICT (task, key) DO UPDATE SET id = excluded.id;

-- name: mark_replaced
-- takes: job uuid, replaced boolean
-- Note on a claimed job that another waits for its end, or no longer does.
UPDATE standfast.claim SET replaced = :replaced WHERE id = :job;
