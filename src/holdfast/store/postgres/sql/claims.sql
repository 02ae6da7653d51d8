-- How jobs come into a worker's hands. Rows are locked in the order in which they are walked, of the fresh ones none but
-- those that are taken, and what another one has locked is passed over: two workers who ask at once both get work. No
-- fresh row may be locked and left, because whoever passed it over has moved a mark beyond it.
--
-- $1 is the time, NULL for the server's. $2 is the worker, $3 the number of its call, $4 the queues that it asks for in
-- their order, NULL for every one by name, each in its turn the first. $5 (JSON) are the marks: the xid from which on
-- to walk, by priority and queue. One that is beyond this server's present is another server's, and says nothing. $6 is
-- for suspects alone. $7 are the queues that are closed to this call. `unnest(ARRAY(…))` hides from the planner how many
-- rows there are: it takes them for ten, and looks each up by itself.

-- part: moment
-- The time, and the oldest transaction that may still write; no row, and then nothing happens, if the worker is gone.
moment AS MATERIALIZED (
    SELECT holdfast.present($1::bigint) AS now, pg_snapshot_xmin(pg_current_snapshot()) AS xmin
    FROM holdfast.worker WHERE worker.id = $2::text FOR KEY SHARE
)

-- part: level
-- The levels of the queues asked for that are neither paused nor closed, in the order in which they give, and from where
-- each is walked.
open AS MATERIALIZED (
    SELECT asked.name, asked.place
    FROM unnest($4::text[]) WITH ORDINALITY AS asked (name, place)
    WHERE NOT EXISTS (SELECT FROM holdfast.queue AS paused WHERE paused.name = asked.name)
        AND asked.name <> ALL ($7::text[])
    UNION ALL
    SELECT every.name, (every.number - 1 + every.queues - ($3::bigint - 1) % every.queues) % every.queues
    FROM (
        SELECT seen.name, row_number() OVER (ORDER BY seen.name) AS number, count(*) OVER () AS queues
        FROM (SELECT DISTINCT level.queue AS name FROM holdfast.level) AS seen
        WHERE $4::text[] IS NULL
            AND NOT EXISTS (SELECT FROM holdfast.queue AS paused WHERE paused.name = seen.name)
            AND seen.name <> ALL ($7::text[])
    ) AS every
),
level AS MATERIALIZED (
    SELECT open.place, seen.queue, seen.priority,
        CASE WHEN noted.mark <= moment.xmin THEN noted.mark ELSE '0'::xid8 END AS mark
    FROM moment CROSS JOIN open
    JOIN (
        SELECT DISTINCT queue, priority FROM holdfast.level WHERE $4::text[] IS NULL OR queue = ANY ($4::text[])
    ) AS seen ON seen.queue = open.name
    CROSS JOIN LATERAL (
        SELECT ($5::jsonb ->> (seen.priority || ' ' || seen.queue))::xid8 AS mark
    ) AS noted
    ORDER BY open.place, seen.priority DESC
)

-- part: fresh_due
-- The fresh jobs of a level, first ones first. All of them are due.
FROM holdfast.fresh AS fresh
WHERE NOT $6::boolean AND fresh.queue = level.queue AND fresh.priority = level.priority AND fresh.xid >= level.mark
ORDER BY fresh.xid, fresh.seq

-- part: first
-- The open levels, when the first job of each is due or became due, and which of them have no fresh ones.
first AS MATERIALIZED (
    SELECT level.place, level.queue, level.priority, least(fresh.run_at, waiting.run_at) AS due_at,
        waiting.run_at AS waiting_at, fresh.run_at IS NULL AND NOT $6::boolean AS is_empty
    FROM level
    LEFT JOIN LATERAL (SELECT fresh.run_at {fresh_due} LIMIT 1) AS fresh ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM holdfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND waiting.alone = $6::boolean
            AND waiting.priority = level.priority
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS waiting ON true
)

-- part: waiting_due
-- The other jobs of a level that are due, first ones first.
FROM holdfast.waiting AS waiting
WHERE NOT waiting.blocked AND waiting.queue = level.queue AND waiting.alone = $6::boolean
    AND waiting.priority = level.priority AND waiting.run_at <= (SELECT now FROM moment)
ORDER BY waiting.run_at, waiting.seq

-- part: from_fresh
-- Take the fresh jobs that `quota` allows for.
from_fresh AS (
    DELETE FROM holdfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT due.ctid FROM quota AS level
        CROSS JOIN LATERAL (SELECT fresh.ctid {fresh_due} LIMIT level.fresh FOR UPDATE SKIP LOCKED) AS due
        LIMIT $8::integer
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.id, fresh.queue, fresh.priority, fresh.run_at, fresh.seq, fresh.xid
)

-- part: waiting_by_quota
-- The due jobs that `quota` allows for, locked.
SELECT due.ctid FROM quota AS level
CROSS JOIN LATERAL (SELECT waiting.ctid {waiting_due} LIMIT level.waiting FOR UPDATE SKIP LOCKED) AS due
WHERE level.waiting > 0

-- part: soon
-- What becomes due within $9, soonest first. The queue is compared in such a way that only an index by time will do.
FROM holdfast.waiting AS waiting
WHERE NOT waiting.blocked AND NOT waiting.alone AND waiting.run_at > (SELECT now FROM moment)
    AND waiting.run_at <= (SELECT now + $9::bigint FROM moment)
    AND waiting.queue || '' = ANY (ARRAY(SELECT name FROM open))
ORDER BY waiting.run_at, waiting.priority DESC, waiting.seq LIMIT $10::integer

-- part: given
-- Make what was taken claims of the worker.
taken AS MATERIALIZED (
    SELECT from_fresh.id, from_fresh.queue, from_fresh.priority, from_fresh.run_at, from_fresh.seq, 1 AS fence,
        0 AS attempt, 0 AS crashes, false AS alone, NULL::text AS error, least(from_fresh.xid, moment.xmin)::text AS mark
    FROM from_fresh CROSS JOIN moment
    UNION ALL
    SELECT id, queue, priority, run_at, seq, fence + 1, attempt, crashes, alone, error, NULL FROM from_waiting
),
given AS (
    INSERT INTO holdfast.claim (id, fence, worker, call, queue, priority, run_at, seq, attempt, crashes, alone, error)
    SELECT id, fence, $2::text, $3::bigint, queue, priority, run_at, seq, attempt, crashes, alone, error FROM taken
)

-- part: signature
-- What changes whenever a level comes or goes, or a queue is paused or resumed.
concat(
    (SELECT sum(hashtextextended(level.queue, level.priority)) FROM holdfast.level AS level), ' ',
    (SELECT sum(hashtextextended(paused.name, 0)) FROM holdfast.queue AS paused)
)

-- part: levels
-- The levels in their order, and the signature of them all, as one value.
(
    SELECT jsonb_build_object(
        'levels', jsonb_agg(jsonb_build_array(queue, priority, is_empty) ORDER BY place, priority DESC),
        'waiting_at', min(waiting_at), 'signature', {signature}
    )::text
    FROM first
)

-- part: claims
-- What a worker learns of its jobs. One that was tried, or whose time was moved past its limit, cannot be late any more.
SELECT NULL::bigint, NULL::text, NULL::boolean, NULL::text,
    taken.seq, taken.id::text, taken.fence, job.task, job.version, job.payload, taken.queue, taken.priority,
    taken.run_at, taken.attempt, taken.crashes, job.max_attempts,
    CASE WHEN taken.attempt = 0 AND taken.run_at <= job.start_by THEN job.start_by END, job.on_late, job.metadata,
    taken.mark
FROM taken CROSS JOIN LATERAL (SELECT * FROM holdfast.job AS asked_for WHERE asked_for.id = taken.id OFFSET 0) AS job

-- part: no_claim
-- The columns of a claim in a row that tells of none.
NULL::bigint, NULL::text, NULL::integer, NULL::text, NULL::integer, NULL::bytea, NULL::text, NULL::integer,
    NULL::bigint, NULL::integer, NULL::integer, NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text

-- name: claim
-- Give at most $8 due jobs to the worker, and of those due within $9 at most $10. But if jobs have waited for $11, and
-- more urgent ones are due, give nothing: the former are to have their turns. Where fresh jobs and others are due, a
-- look without locks tells how many of each come first.
--
-- The first row tells the time, xmin, whether someone is to have a turn, and the levels.
WITH {moment}, {level}, {first},
mood AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM first WHERE waiting_at <= moment.now) AS mixed, EXISTS (
        SELECT FROM first GROUP BY place
        HAVING max(priority) FILTER (WHERE due_at <= moment.now)
            > min(priority) FILTER (WHERE due_at <= moment.now - $11::bigint)
    ) AS starving
    FROM moment
),
share AS MATERIALIZED (
    SELECT queue, priority, count(*) FILTER (WHERE is_fresh) AS fresh, count(*) FILTER (WHERE NOT is_fresh) AS waiting
    FROM (
        SELECT level.queue, level.priority, due.is_fresh FROM level
        CROSS JOIN LATERAL (
            (SELECT fresh.run_at, fresh.seq, true AS is_fresh {fresh_due} LIMIT $8::integer)
            UNION ALL
            (SELECT waiting.run_at, waiting.seq, false {waiting_due} LIMIT $8::integer)
            ORDER BY run_at, seq LIMIT $8::integer
        ) AS due
        WHERE (SELECT mixed AND NOT starving FROM mood)
        LIMIT $8::integer
    ) AS due
    GROUP BY queue, priority
),
quota AS MATERIALIZED (
    SELECT level.*, CASE WHEN mood.mixed THEN coalesce(share.fresh, 0) ELSE $8::integer END AS fresh,
        coalesce(share.waiting, 0) AS waiting
    FROM mood CROSS JOIN level LEFT JOIN share ON share.queue = level.queue AND share.priority = level.priority
    WHERE NOT mood.starving
    ORDER BY level.place, level.priority DESC
),
{from_fresh},
from_waiting AS (
    DELETE FROM holdfast.waiting AS waiting
    USING unnest(ARRAY({waiting_by_quota}) || ARRAY(
        SELECT waiting.ctid FROM (SELECT FROM mood WHERE NOT starving AND NOT $6::boolean) AS calm
        CROSS JOIN LATERAL (SELECT waiting.ctid {soon} FOR UPDATE SKIP LOCKED) AS waiting
    )) AS due (ctid)
    WHERE waiting.ctid = due.ctid
    RETURNING waiting.*
),
{given}
SELECT moment.now, moment.xmin::text, mood.starving, {levels}, {no_claim} FROM moment CROSS JOIN mood
UNION ALL
{claims};

-- name: claim_fresh
-- What most claims are, in a fraction of the time that it takes a server to set up `claim`: give at most $7 fresh jobs
-- to the worker, of the levels that its process knows. These are $4 and $5 in their order, with marks $6, and nothing
-- else has changed since it learned of them: the signature is still $8. But give nothing if other jobs of theirs are due
-- within $9, or if jobs have waited for $10 and more urgent ones of their queue are due. The worker's row is locked only
-- where there is something to give; if it is gone by then, there is no row in the answer either.
--
-- The first row tells, as JSON, the time, xmin, whether all was as expected, which levels, by their places, had no fresh
-- jobs, and when the next job of them is due, or became due.
WITH moment AS MATERIALIZED (
    SELECT holdfast.present($1::bigint) AS now, pg_snapshot_xmin(pg_current_snapshot()) AS xmin
    FROM holdfast.worker WHERE worker.id = $2::text
),
level AS MATERIALIZED (
    SELECT level.*, fresh.run_at AS fresh_at, waiting.run_at AS waiting_at
    FROM (
        SELECT noted.place, noted.queue, noted.priority,
            CASE WHEN noted.mark <= moment.xmin THEN noted.mark ELSE '0'::xid8 END AS mark
        FROM moment CROSS JOIN (
            SELECT queue, priority, mark::xid8 AS mark, place
            FROM unnest($4::text[], $5::integer[], $6::text[]) WITH ORDINALITY AS told (queue, priority, mark, place)
        ) AS noted
    ) AS level
    LEFT JOIN LATERAL (
        SELECT fresh.run_at FROM holdfast.fresh AS fresh
        WHERE fresh.queue = level.queue AND fresh.priority = level.priority AND fresh.xid >= level.mark
        ORDER BY fresh.xid, fresh.seq LIMIT 1
    ) AS fresh ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM holdfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND NOT waiting.alone
            AND waiting.priority = level.priority
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS waiting ON true
    ORDER BY level.place
),
mood AS MATERIALIZED (
    SELECT moment.now, moment.xmin, {signature} = $8::text AND NOT EXISTS (
        SELECT FROM level WHERE waiting_at <= moment.now + $9::bigint
    ) AND NOT EXISTS (
        SELECT FROM level GROUP BY queue
        HAVING max(priority) FILTER (WHERE fresh_at <= moment.now)
            > min(priority) FILTER (WHERE fresh_at <= moment.now - $10::bigint)
    ) AS calm, EXISTS (SELECT FROM level WHERE fresh_at IS NOT NULL) AS busy
    FROM moment
),
alive AS MATERIALIZED (
    SELECT FROM holdfast.worker WHERE worker.id = $2::text AND (SELECT calm AND busy FROM mood) FOR KEY SHARE
),
from_fresh AS (
    DELETE FROM holdfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT due.ctid FROM alive CROSS JOIN level
        CROSS JOIN LATERAL (
            SELECT fresh.ctid FROM holdfast.fresh AS fresh
            WHERE fresh.queue = level.queue AND fresh.priority = level.priority AND fresh.xid >= level.mark
            ORDER BY fresh.xid, fresh.seq LIMIT $7::integer FOR UPDATE SKIP LOCKED
        ) AS due
        LIMIT $7::integer
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.id, fresh.queue, fresh.priority, fresh.run_at, fresh.seq, fresh.xid
),
given AS (
    INSERT INTO holdfast.claim (id, fence, worker, call, queue, priority, run_at, seq)
    SELECT id, 1, $2::text, $3::bigint, queue, priority, run_at, seq FROM from_fresh
)
SELECT jsonb_build_array(
        mood.now, mood.xmin, mood.calm, ARRAY(SELECT place FROM level WHERE fresh_at IS NULL),
        least(
            (SELECT min(waiting_at) FROM level),
            CASE WHEN (SELECT count(*) FROM from_fresh) = $7::integer THEN (
                SELECT min(fresh.run_at) FROM level CROSS JOIN LATERAL (
                    SELECT fresh.run_at FROM holdfast.fresh AS fresh
                    WHERE fresh.queue = level.queue AND fresh.priority = level.priority AND fresh.xid >= level.mark
                    ORDER BY fresh.xid, fresh.seq LIMIT 1 OFFSET (
                        SELECT count(*) FROM from_fresh AS taken
                        WHERE taken.queue = level.queue AND taken.priority = level.priority
                    )
                ) AS fresh
            ) END
        )
    )::text,
    NULL::text, NULL::integer, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::integer, NULL::bytea,
    NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text
FROM mood WHERE EXISTS (SELECT FROM alive) OR NOT (calm AND busy)
UNION ALL
SELECT NULL, from_fresh.queue, from_fresh.priority, from_fresh.run_at, from_fresh.seq, from_fresh.xid::text,
    job.task, job.version, job.payload, job.max_attempts,
    CASE WHEN from_fresh.run_at <= job.start_by THEN job.start_by END, job.on_late, job.metadata, from_fresh.id::text
FROM from_fresh
CROSS JOIN LATERAL (SELECT * FROM holdfast.job AS asked_for WHERE asked_for.id = from_fresh.id OFFSET 0) AS job;

-- name: next_due
-- When the next job of the open levels is due, or became due.
WITH {moment}, {level}, {first}
SELECT min(due_at) FROM first;

-- name: mend_levels
-- Make the levels that jobs have and that are not there: somebody emptied the table, while an enqueuer still remembers
-- what was in it. Each walk steps from one level to the next along an index.
WITH RECURSIVE of_fresh AS (
    (SELECT queue, priority FROM holdfast.fresh ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.priority FROM of_fresh CROSS JOIN LATERAL (
        SELECT fresh.queue, fresh.priority FROM holdfast.fresh AS fresh
        WHERE (fresh.queue, fresh.priority) > (of_fresh.queue, of_fresh.priority)
        ORDER BY fresh.queue, fresh.priority LIMIT 1
    ) AS beyond
),
of_waiting AS (
    (SELECT queue, alone, priority FROM holdfast.waiting WHERE NOT blocked ORDER BY queue, alone, priority LIMIT 1)
    UNION ALL
    SELECT beyond.queue, beyond.alone, beyond.priority FROM of_waiting CROSS JOIN LATERAL (
        SELECT waiting.queue, waiting.alone, waiting.priority FROM holdfast.waiting AS waiting
        WHERE NOT waiting.blocked AND (waiting.queue, waiting.alone, waiting.priority)
            > (of_waiting.queue, of_waiting.alone, of_waiting.priority)
        ORDER BY waiting.queue, waiting.alone, waiting.priority LIMIT 1
    ) AS beyond
)
INSERT INTO holdfast.level (queue, priority)
SELECT queue, priority FROM (
    SELECT queue, priority FROM of_fresh UNION SELECT queue, priority FROM of_waiting
) AS used
WHERE NOT EXISTS (SELECT FROM holdfast.level WHERE level.queue = used.queue AND level.priority = used.priority);

-- name: unblock_suspects
-- Let suspects wait for a child of their own that wait for a worker which knows their task, as the one that asks does
-- ($2, $3), in the queues $1 (NULL for every queue) but not in $4.
UPDATE holdfast.waiting AS waiting SET blocked = false, reason = NULL
WHERE waiting.blocked AND waiting.reason = {no_worker} AND waiting.task = ANY ($2::text[]) AND waiting.alone
    AND EXISTS (
        SELECT FROM unnest($2::text[], $3::integer[]) AS known (task, version)
        WHERE known.task = waiting.task AND known.version >= waiting.version
    )
    AND ($1::text[] IS NULL OR waiting.queue = ANY ($1::text[])) AND waiting.queue <> ALL ($4::text[])
    AND NOT EXISTS (SELECT FROM holdfast.queue AS paused WHERE paused.name = waiting.queue);

-- name: due_jobs
-- The due jobs among which one can choose: of each level, and of each kind, the first $8. Kinds are fresh (0), waiting (1)
-- and adoptable (2), which are blocked for want of a worker that knows their task as the one that asks does ($9, $10).
-- The first row tells the time, xmin and the levels.
WITH {moment}, {level}, {first}
SELECT moment.now, moment.xmin::text, {levels}, NULL::text AS queue, NULL::integer AS priority, NULL::bigint AS run_at,
    NULL::bigint AS seq, NULL::integer AS kind
FROM moment
UNION ALL
SELECT NULL, NULL, NULL, level.queue, level.priority, due.run_at, due.seq, due.kind
FROM level CROSS JOIN LATERAL (
    (SELECT fresh.run_at, fresh.seq, 0 AS kind {fresh_due} LIMIT $8::integer)
    UNION ALL
    (SELECT waiting.run_at, waiting.seq, 1 {waiting_due} LIMIT $8::integer)
    UNION ALL
    (
        SELECT waiting.run_at, waiting.seq, 2 FROM holdfast.waiting AS waiting
        WHERE waiting.blocked AND waiting.reason = {no_worker} AND waiting.task = ANY ($9::text[])
            AND EXISTS (
                SELECT FROM unnest($9::text[], $10::integer[]) AS known (task, version)
                WHERE known.task = waiting.task AND known.version >= waiting.version
            )
            AND waiting.queue = level.queue AND waiting.alone = $6::boolean AND waiting.priority = level.priority
            AND waiting.run_at <= (SELECT now FROM moment)
        ORDER BY waiting.run_at, waiting.seq LIMIT $8::integer
    )
) AS due;

-- name: claim_chosen
-- Give due jobs to the worker, of the levels ($11, $12) so many fresh ones ($13), waiting ones ($14) and adoptable ones
-- ($15), which are of the tasks $16 in versions up to $17; $8 in all, and of those due within $9 at most $10.
WITH {moment}, {level},
quota AS MATERIALIZED (
    SELECT level.*, asked.fresh, asked.waiting, asked.adoptable
    FROM unnest($11::text[], $12::integer[], $13::integer[], $14::integer[], $15::integer[])
        AS asked (queue, priority, fresh, waiting, adoptable)
    JOIN level ON level.queue = asked.queue AND level.priority = asked.priority
),
{from_fresh},
adoptable AS MATERIALIZED (
    SELECT waiting.ctid, waiting.queue, waiting.priority, waiting.run_at, waiting.seq, waiting.alone
    FROM holdfast.waiting AS waiting
    WHERE waiting.blocked AND waiting.reason = {no_worker} AND waiting.task = ANY ($16::text[])
        AND EXISTS (
            SELECT FROM unnest($16::text[], $17::integer[]) AS known (task, version)
            WHERE known.task = waiting.task AND known.version >= waiting.version
        )
),
from_waiting AS (
    DELETE FROM holdfast.waiting AS waiting
    USING unnest(ARRAY({waiting_by_quota}) || ARRAY(
        SELECT due.ctid FROM quota CROSS JOIN LATERAL (
            SELECT waiting.ctid FROM adoptable JOIN holdfast.waiting AS waiting ON waiting.ctid = adoptable.ctid
            WHERE adoptable.queue = quota.queue AND adoptable.priority = quota.priority
                AND adoptable.alone = $6::boolean AND adoptable.run_at <= (SELECT now FROM moment)
            ORDER BY adoptable.run_at, adoptable.seq LIMIT quota.adoptable FOR UPDATE OF waiting SKIP LOCKED
        ) AS due
    ) || ARRAY(
        SELECT waiting.ctid FROM holdfast.waiting AS waiting WHERE NOT $6::boolean AND waiting.ctid = ANY (ARRAY(
            SELECT near.ctid FROM (
                (SELECT waiting.ctid, waiting.run_at, waiting.priority, waiting.seq {soon})
                UNION ALL
                SELECT ctid, run_at, priority, seq FROM adoptable
                WHERE NOT alone AND run_at > (SELECT now FROM moment)
                    AND run_at <= (SELECT now + $9::bigint FROM moment) AND queue = ANY (ARRAY(SELECT name FROM open))
            ) AS near
            ORDER BY near.run_at, near.priority DESC, near.seq LIMIT $10::integer
        ))
        FOR UPDATE SKIP LOCKED
    )) AS due (ctid)
    WHERE waiting.ctid = due.ctid
    RETURNING waiting.*
),
{given}
{claims};
