-- Where one job is, how it ends in nobody's hands, and who has a key. $1 of the looks is the time, NULL for the
-- server's. Who acts upon a look must see whether the act found the job there: workers claim and finish meanwhile.

-- part: found
-- A job with where it is. One that is neither waiting nor claimed nor ended is fresh, and so ready.
SELECT job.id::text, job.task, job.queue, job.priority, job.key,
    CASE
        WHEN place.state IS NOT NULL THEN place.state
        WHEN place.run_at > moment.now THEN {scheduled}
        ELSE {ready}
    END,
    coalesce(place.run_at, job.run_at), place.finished_at, job.keep_key, place.after::text, coalesce(place.fence, 0),
    moment.now
FROM moment CROSS JOIN holdfast.job AS job
LEFT JOIN LATERAL (
    SELECT CASE WHEN waiting.blocked THEN {blocked} END AS state, waiting.run_at, NULL::bigint AS finished_at,
        waiting.after, waiting.fence
    FROM holdfast.waiting AS waiting WHERE waiting.id = job.id
    UNION ALL
    SELECT CASE WHEN claim.running THEN {running} ELSE {held} END, claim.run_at, NULL, NULL, claim.fence
    FROM holdfast.claim AS claim WHERE claim.id = job.id
    UNION ALL
    SELECT outcome.state, outcome.run_at, outcome.finished_at, NULL, outcome.fence
    FROM holdfast.outcome AS outcome WHERE outcome.id = job.id
) AS place ON true

-- name: whereabouts
-- Where job $2 is.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now)
{found}
WHERE job.id = $2::uuid;

-- name: withdraw
-- End job $2 for good, in state $3 for reason $4, if nobody has it in hand.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now),
was_fresh AS (
    DELETE FROM holdfast.fresh AS fresh USING holdfast.job AS job
    WHERE job.id = $2::uuid AND fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    RETURNING fresh.id, fresh.queue, fresh.run_at
),
was_waiting AS (
    DELETE FROM holdfast.waiting WHERE id = $2::uuid
    RETURNING id, queue, run_at, fence, attempt, crashes, alone, error, after
),
gone AS (
    SELECT id, queue, run_at, 0 AS fence, 0 AS attempt, 0 AS crashes, false AS alone, NULL::text AS error,
        NULL::uuid AS after
    FROM was_fresh
    UNION ALL
    SELECT * FROM was_waiting
),
ended AS (
    INSERT INTO holdfast.outcome (id, state, reason, queue, fence, run_at, finished_at, attempt, crashes, alone,
        cancel_requested, error)
    SELECT id, $3::text, $4::text, queue, fence, run_at, moment.now, attempt, crashes, alone, false, error
    FROM gone CROSS JOIN moment
),
counted AS (
    INSERT INTO holdfast.tally (queue, state, jobs) SELECT queue, $3::text, 1 FROM gone
)
SELECT id::text, queue, fence, after::text FROM gone;

-- name: lock_keys
-- Keep the keys $2 of the tasks $3 for this transaction: nobody else gives or takes them until it ends. Nothing comes
-- back where the transaction would not see what others committed while it waited. In their order, so that two
-- transactions do not wait for each other.
INSERT INTO holdfast.key AS taken (task, key)
SELECT asked.task, asked.key FROM unnest($3::text[], $2::text[]) AS asked (task, key)
WHERE current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
ORDER BY asked.task COLLATE "C", asked.key COLLATE "C"
ON CONFLICT (task, key) DO UPDATE SET id = taken.id
RETURNING holdfast.present($1::bigint);

-- name: lock_claimable
-- Keep the jobs that have the keys $2 of the tasks $1, and the jobs $4, from being claimed, as far as they could be. But
-- not the jobs $3, which are the caller's own: no fresh row may be locked and left (see claims.sql). In the order of
-- their ids, so that two transactions do not wait for each other.
WITH holder AS MATERIALIZED (
    SELECT taken.id FROM unnest($1::text[], $2::text[]) AS asked (task, key)
    JOIN holdfast.key AS taken ON taken.task = asked.task AND taken.key = asked.key
    WHERE taken.id <> ALL ($3::uuid[])
    UNION
    SELECT asked.id FROM unnest($4::uuid[]) AS asked (id) WHERE asked.id <> ALL ($3::uuid[])
),
fresh AS MATERIALIZED (
    SELECT fresh.id FROM holder JOIN holdfast.job AS job ON job.id = holder.id
    JOIN holdfast.fresh AS fresh ON fresh.queue = job.queue AND fresh.priority = job.priority AND fresh.xid = job.xid
        AND fresh.seq = job.seq
    ORDER BY fresh.id FOR UPDATE OF fresh
),
waiting AS MATERIALIZED (
    SELECT waiting.id FROM holder JOIN holdfast.waiting AS waiting ON waiting.id = holder.id
    WHERE waiting.after IS NULL
    ORDER BY waiting.id FOR UPDATE OF waiting
)
SELECT id FROM fresh UNION ALL SELECT id FROM waiting;

-- name: lock_claims
-- Lock the claims that are in the way of who takes the keys $2 of the tasks $1, or cancels the jobs $3: those of the jobs
-- that have them, or of the jobs for whose end these wait. By id, as everyone does who locks several.
SELECT FROM holdfast.claim AS claim WHERE claim.id = ANY (ARRAY(
    SELECT coalesce(waiting.after, holder.id) FROM (
        SELECT taken.id FROM unnest($1::text[], $2::text[]) AS asked (task, key)
        JOIN holdfast.key AS taken ON taken.task = asked.task AND taken.key = asked.key
        UNION ALL
        SELECT unnest($3::uuid[])
    ) AS holder
    LEFT JOIN holdfast.waiting AS waiting ON waiting.id = holder.id
))
ORDER BY claim.id FOR UPDATE;

-- name: keys_given_back
-- The keys, with their tasks, that go back to others when the jobs $1 are cancelled: those are to replace a claimed one.
SELECT DISTINCT job.task, job.key FROM holdfast.waiting AS waiting JOIN holdfast.job AS job ON job.id = waiting.id
WHERE waiting.id = ANY ($1::uuid[]) AND waiting.after IS NOT NULL AND job.key IS NOT NULL;

-- name: key_holders
-- The jobs that were last accepted with the keys $2 of the tasks $3.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now)
{found}
WHERE job.id = ANY (ARRAY(
    SELECT taken.id FROM unnest($3::text[], $2::text[]) AS asked (task, key)
    JOIN holdfast.key AS taken ON taken.task = asked.task AND taken.key = asked.key
));

-- name: give_keys
-- Note which jobs $3 have the keys $2 of the tasks $1 from now on.
INSERT INTO holdfast.key (task, key, id)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]) AS given (task, key, id)
ON CONFLICT (task, key) DO UPDATE SET id = excluded.id;

-- name: mark_replaced
-- Note on claimed job $1 that another waits for its end, or no longer does.
UPDATE holdfast.claim SET replaced = $2::boolean WHERE id = $1::uuid;
