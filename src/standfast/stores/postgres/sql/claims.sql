-- How jobs come into a worker's hands. Rows are locked in the order in which they are walked, of the fresh ones
-- none but those that are taken, and what another one has locked is passed over: two workers who ask at once both
-- get work. No fresh row may be locked and left, because whoever passed it over has moved a mark beyond it.
--
-- `unnest(ARRAY(…))` hides from the planner how many rows there are: it takes them for ten, and looks each up by
-- itself.

-- part, where tasks are closed: closed_tasks
-- What statements take in addition: the closed tasks.
, closed_tasks text[]

-- part, where tasks are closed: fresh_of_open_task
-- A fresh job that is not of a closed task. Each is looked up by itself: a join might read all jobs there are.
AND (SELECT job.task FROM standfast.job AS job WHERE job.id = fresh.id) <> ALL (:closed_tasks)

-- part, where tasks are closed: waiting_of_open_task
-- Another one.
AND waiting.task <> ALL (:closed_tasks)

-- part: asked
-- What all of these are told: the time, NULL for the server's; the worker, and the number of its call; the queues
-- that it asks for in their order, NULL for every one by name, each in its turn the first; the marks (by priority
-- and queue: the xid from which on to walk); the group of suspects that it is for, or 0; and the queues that are closed to
-- this call.
now bigint, worker text, call bigint, queues text[], marks jsonb, group integer, closed text[]

-- part: limits
-- How many due jobs to give at most, and of those due within `look_ahead` how many.
limit integer, look_ahead bigint, ahead_limit integer

-- part: asker
-- The time, and the oldest transaction that may still write; no row, and then nothing happens, if the worker is
-- gone.
asker AS MATERIALIZED (
    SELECT standfast.present(:now) AS now, pg_snapshot_xmin(pg_current_snapshot()) AS xmin
    FROM standfast.worker WHERE worker.id = :worker FOR KEY SHARE
)

-- part: level
-- The levels of the queues asked for that are neither paused nor closed, in the order in which they give, and from
-- where each is walked.
open AS MATERIALIZED (
    SELECT asked.name, asked.place
    FROM unnest(:queues) WITH ORDINALITY AS asked (name, place)
    WHERE NOT EXISTS (SELECT FROM standfast.queue AS paused WHERE paused.name = asked.name)
        AND asked.name <> ALL (:closed)
    UNION ALL
    SELECT every.name, (every.number - 1 + every.queues - (:call - 1) % every.queues) % every.queues
    FROM (
        SELECT seen.name, row_number() OVER (ORDER BY seen.name) AS number, count(*) OVER () AS queues
        FROM (SELECT DISTINCT level.queue AS name FROM standfast.level) AS seen
        WHERE :queues IS NULL
            AND NOT EXISTS (SELECT FROM standfast.queue AS paused WHERE paused.name = seen.name)
            AND seen.name <> ALL (:closed)
    ) AS every
),
level AS MATERIALIZED (
    SELECT open.place, seen.queue, seen.priority,
        {mark}
    FROM asker CROSS JOIN open
    JOIN (
        SELECT DISTINCT queue, priority FROM standfast.level WHERE :queues IS NULL OR queue = ANY (:queues)
    ) AS seen ON seen.queue = open.name
    CROSS JOIN LATERAL (
        SELECT (:marks ->> (seen.priority || ' ' || seen.queue))::xid8 AS mark
    ) AS noted
    ORDER BY open.place, seen.priority DESC
)

-- part: of_group
-- A waiting job of the group that is asked for.
waiting.alone = (:group > 0) AND (:group = 0 OR {group} = :group)

-- part: fresh_due
-- The fresh jobs of a level, first ones first; none where suspects are asked for.
FROM standfast.fresh AS fresh
WHERE :group = 0 {fresh_of_open_task} AND {fresh_of_level}

-- part: first
-- The open levels, when the first job of each is due or became due, and which of them have no fresh ones.
first AS MATERIALIZED (
    SELECT level.place, level.queue, level.priority, least(fresh.run_at, waiting.run_at) AS due_at,
        waiting.run_at AS waiting_at, fresh.run_at IS NULL AND :group = 0 AS is_empty
    FROM level
    LEFT JOIN LATERAL (SELECT fresh.run_at {fresh_due} LIMIT 1) AS fresh ON true
    LEFT JOIN LATERAL (
        SELECT waiting.run_at FROM standfast.waiting AS waiting
        WHERE NOT waiting.blocked AND waiting.queue = level.queue AND {of_group}
            AND waiting.priority = level.priority {waiting_of_open_task}
        ORDER BY waiting.run_at, waiting.seq LIMIT 1
    ) AS waiting ON true
)

-- part: waiting_due
-- The other jobs of a level that are due, first ones first.
FROM standfast.waiting AS waiting
WHERE NOT waiting.blocked AND waiting.queue = level.queue AND {of_group}
    AND waiting.priority = level.priority AND waiting.run_at <= (SELECT now FROM asker) {waiting_of_open_task}
ORDER BY waiting.run_at, waiting.seq

-- part: adoptable
-- Jobs that are blocked for want of a worker which knows their task, as the one that asks does: `tasks` are the names
-- of those that it knows, `versions` the newest version of each. Of each so many at most: they are in no order, and
-- whoever wants the first ones sorts them.
adoptable AS MATERIALIZED (
    SELECT waiting.ctid, waiting.queue, waiting.priority, waiting.run_at, waiting.seq, waiting.alone
    FROM unnest(:tasks, :versions) AS known (task, version)
    CROSS JOIN LATERAL (
        SELECT waiting.* , waiting.ctid FROM standfast.waiting AS waiting
        WHERE waiting.blocked AND waiting.reason = {no_worker} AND waiting.task = known.task
            AND waiting.version <= known.version
            AND (:queues IS NULL OR waiting.queue = ANY (:queues)) AND waiting.queue <> ALL (:closed)
            AND NOT EXISTS (SELECT FROM standfast.queue AS paused WHERE paused.name = waiting.queue)
        LIMIT 2000
    ) AS waiting
)

-- part: from_fresh
-- Take the fresh jobs that `quota` allows for.
from_fresh AS (
    DELETE FROM standfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT due.ctid FROM quota AS level
        CROSS JOIN LATERAL (SELECT fresh.ctid {fresh_due} LIMIT level.fresh FOR UPDATE SKIP LOCKED) AS due
        LIMIT :limit
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
-- What becomes due within `look_ahead`, soonest first, but for what waits for a signal: in a worker's hand it would
-- not hear it. The queue is compared in such a way that only an index by
-- time will do.
FROM standfast.waiting AS waiting
WHERE NOT waiting.blocked AND NOT waiting.alone AND waiting.run_at > (SELECT now FROM asker)
    AND waiting.run_at <= (SELECT now + :look_ahead FROM asker)
    AND waiting.queue || '' = ANY (ARRAY(SELECT name FROM open)) AND coalesce(left(waiting.reason, 7), '') <> 'signal:'
    {waiting_of_open_task}
ORDER BY waiting.run_at, waiting.priority DESC, waiting.seq LIMIT :ahead_limit

-- part: given
-- Make what was taken claims of the worker.
taken AS MATERIALIZED (
    SELECT from_fresh.id, from_fresh.queue, from_fresh.priority, from_fresh.run_at, from_fresh.seq, 1 AS fence,
        0 AS attempt, 0 AS crashes, false AS alone, NULL::text AS error, least(from_fresh.xid, asker.xmin)::text AS mark
    FROM from_fresh CROSS JOIN asker
    UNION ALL
    SELECT id, queue, priority, run_at, seq, fence + 1, attempt, crashes, alone, error, NULL FROM from_waiting
),
given AS (
    INSERT INTO standfast.claim (id, fence, worker, call, queue, priority, run_at, seq, attempt, crashes, alone, error)
    SELECT id, fence, :worker, :call, queue, priority, run_at, seq, attempt, crashes, alone, error FROM taken
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
-- What a worker learns of its jobs. One that was tried, or whose time was moved past its limit, cannot be late any
-- more.
SELECT NULL::bigint, NULL::text, NULL::boolean, NULL::text,
    taken.seq, taken.id::text, taken.fence, job.task, job.version, job.payload, taken.queue, taken.priority,
    taken.run_at, taken.attempt, taken.crashes, job.max_attempts,
    CASE WHEN taken.attempt = 0 AND taken.run_at <= job.start_by THEN job.start_by END, job.on_late, job.metadata,
    taken.mark
FROM taken CROSS JOIN LATERAL (SELECT * FROM standfast.job AS asked_for WHERE asked_for.id = taken.id OFFSET 0) AS job

-- part: no_claim
-- The columns of a claim in a row that tells of none.
NULL::bigint, NULL::text, NULL::integer, NULL::text, NULL::integer, NULL::bytea, NULL::text, NULL::integer,
    NULL::bigint, NULL::integer, NULL::integer, NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text

-- name: claim
-- takes: {asked}, {limits}, long_wait bigint {closed_tasks}
-- Give due jobs to the worker, and some that soon will be. But if jobs have waited for `long_wait`, and more urgent
-- ones are due, give nothing: the former are to have their turns. Where fresh jobs and others are due, a look
-- without locks tells how many of each come first.
--
-- The first row tells the time, xmin, whether someone is to have a turn, and the levels.
WITH {asker}, {level}, {first},
mood AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM first WHERE waiting_at <= asker.now) AS mixed, EXISTS (
        SELECT FROM first GROUP BY place
        HAVING max(priority) FILTER (WHERE due_at <= asker.now)
            > min(priority) FILTER (WHERE due_at <= asker.now - :long_wait)
    ) AS starving
    FROM asker
),
share AS MATERIALIZED (
    SELECT queue, priority, count(*) FILTER (WHERE is_fresh) AS fresh, count(*) FILTER (WHERE NOT is_fresh) AS waiting
    FROM (
        SELECT level.queue, level.priority, due.is_fresh FROM level
        CROSS JOIN LATERAL (
            (SELECT fresh.run_at, fresh.seq, true AS is_fresh {fresh_due} LIMIT :limit)
            UNION ALL
            (SELECT waiting.run_at, waiting.seq, false {waiting_due} LIMIT :limit)
            ORDER BY run_at, seq LIMIT :limit
        ) AS due
        WHERE (SELECT mixed AND NOT starving FROM mood)
        LIMIT :limit
    ) AS due
    GROUP BY queue, priority
),
quota AS MATERIALIZED (
    SELECT level.*, CASE WHEN mood.mixed THEN coalesce(share.fresh, 0) ELSE :limit END AS fresh,
        coalesce(share.waiting, 0) AS waiting
    FROM mood CROSS JOIN level LEFT JOIN share ON share.queue = level.queue AND share.priority = level.priority
    WHERE NOT mood.starving
    ORDER BY level.place, level.priority DESC
),
{from_fresh},
from_waiting AS (
    DELETE FROM standfast.waiting AS waiting
    USING unnest(ARRAY({waiting_by_quota}) || ARRAY(
        SELECT waiting.ctid FROM (SELECT FROM mood WHERE NOT starving AND :group = 0) AS calm
        CROSS JOIN LATERAL (SELECT waiting.ctid {soon} FOR UPDATE SKIP LOCKED) AS waiting
    )) AS due (ctid)
    WHERE waiting.ctid = due.ctid
    RETURNING waiting.*
),
{given}
SELECT asker.now, asker.xmin::text, mood.starving, {levels}, {no_claim} FROM asker CROSS JOIN mood
UNION ALL
{claims};

-- name: next_due
-- takes: {asked} {closed_tasks}
-- When the next job of the open levels is due, or became due.
WITH {asker}, {level}, {first}
SELECT min(due_at) FROM first;

-- name: unblock_suspects
-- takes: queues text[], tasks text[], versions integer[], closed text[]
-- Let adoptable suspects wait for a child of their own, in the queues (NULL for every queue) that are not closed.
WITH {adoptable}
UPDATE standfast.waiting AS waiting SET blocked = false, reason = NULL
WHERE waiting.ctid = ANY (ARRAY(SELECT ctid FROM adoptable WHERE alone)) AND waiting.blocked;

-- name: block_unknown
-- takes: {asked}, limit integer, tasks text[], versions integer[] {closed_tasks}
-- Of the due jobs of each level put those aside that the worker does not know, so many at most: `tasks` are the names of
-- what it does not know, `versions` the oldest version of each.
WITH {asker}, {level},
unknown AS MATERIALIZED (SELECT task, version FROM unnest(:tasks, :versions) AS unknown (task, version)),
from_fresh AS (
    DELETE FROM standfast.fresh AS fresh
    USING unnest(ARRAY(
        SELECT due.ctid FROM level CROSS JOIN LATERAL (
            SELECT fresh.ctid FROM (
                SELECT fresh.ctid, fresh.id {fresh_due} LIMIT :limit
            ) AS first
            JOIN standfast.fresh AS fresh ON fresh.ctid = first.ctid
            WHERE EXISTS (
                SELECT FROM standfast.job AS job JOIN unknown ON unknown.task = job.task AND unknown.version <= job.version
                WHERE job.id = fresh.id
            )
            FOR UPDATE OF fresh SKIP LOCKED
        ) AS due
    )) AS due (ctid)
    WHERE fresh.ctid = due.ctid
    RETURNING fresh.id, fresh.queue, fresh.priority, fresh.run_at, fresh.seq
),
put_aside AS (
    INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, blocked, reason)
    SELECT from_fresh.queue, from_fresh.priority, from_fresh.run_at, from_fresh.seq, job.id, job.task, job.version,
        true, {no_worker}
    FROM from_fresh CROSS JOIN LATERAL (
        SELECT * FROM standfast.job AS asked_for WHERE asked_for.id = from_fresh.id OFFSET 0
    ) AS job
)
UPDATE standfast.waiting AS waiting SET blocked = true, reason = {no_worker}
WHERE NOT waiting.blocked AND waiting.ctid = ANY (ARRAY(
    SELECT due.ctid FROM level CROSS JOIN LATERAL (
        SELECT waiting.ctid FROM (SELECT waiting.ctid, waiting.task, waiting.version {waiting_due} LIMIT :limit) AS first
        JOIN unknown ON unknown.task = first.task AND unknown.version <= first.version
        JOIN standfast.waiting AS waiting ON waiting.ctid = first.ctid
        FOR UPDATE OF waiting SKIP LOCKED
    ) AS due
));

-- name: due_jobs
-- takes: {asked}, limit integer, tasks text[], versions integer[] {closed_tasks}
-- The due jobs among which one can choose: the first ones of each level and of each kind. Kinds are fresh (0),
-- waiting (1) and adoptable (2). The first row tells the time, xmin and the levels.
WITH {asker}, {level}, {first}, {adoptable}
SELECT asker.now, asker.xmin::text, {levels}, NULL::text AS queue, NULL::integer AS priority, NULL::bigint AS run_at,
    NULL::bigint AS seq, NULL::integer AS kind
FROM asker
UNION ALL
SELECT NULL, NULL, NULL, level.queue, level.priority, due.run_at, due.seq, due.kind
FROM level CROSS JOIN LATERAL (
    (SELECT fresh.run_at, fresh.seq, 0 AS kind {fresh_due} LIMIT :limit)
    UNION ALL
    (SELECT waiting.run_at, waiting.seq, 1 {waiting_due} LIMIT :limit)
    UNION ALL
    (
        SELECT adoptable.run_at, adoptable.seq, 2 FROM adoptable
        WHERE adoptable.queue = level.queue AND adoptable.priority = level.priority AND NOT adoptable.alone
            AND :group = 0 AND adoptable.run_at <= (SELECT now FROM asker)
        ORDER BY adoptable.run_at, adoptable.seq LIMIT :limit
    )
) AS due;

-- name: claim_chosen
-- takes: {asked}, {limits}
-- takes: of_queues text[], of_priorities integer[], fresh integer[], waiting integer[], adoptable integer[]
-- takes: tasks text[], versions integer[] {closed_tasks}
-- Give due jobs to the worker: of these levels so many fresh ones, waiting ones and adoptable ones. And some that
-- soon will be due.
WITH {asker}, {level},
quota AS MATERIALIZED (
    SELECT level.*, asked.fresh, asked.waiting, asked.adoptable
    FROM unnest(:of_queues, :of_priorities, :fresh, :waiting, :adoptable)
        AS asked (queue, priority, fresh, waiting, adoptable)
    JOIN level ON level.queue = asked.queue AND level.priority = asked.priority
),
{from_fresh},
{adoptable},
from_waiting AS (
    DELETE FROM standfast.waiting AS waiting
    USING unnest(ARRAY({waiting_by_quota}) || ARRAY(
        SELECT due.ctid FROM quota CROSS JOIN LATERAL (
            SELECT waiting.ctid FROM adoptable JOIN standfast.waiting AS waiting ON waiting.ctid = adoptable.ctid
            WHERE adoptable.queue = quota.queue AND adoptable.priority = quota.priority
                AND NOT adoptable.alone AND :group = 0 AND adoptable.run_at <= (SELECT now FROM asker)
            ORDER BY adoptable.run_at, adoptable.seq LIMIT quota.adoptable FOR UPDATE OF waiting SKIP LOCKED
        ) AS due
    ) || ARRAY(
        SELECT waiting.ctid FROM standfast.waiting AS waiting WHERE :group = 0 AND waiting.ctid = ANY (ARRAY(
            SELECT near.ctid FROM (
                (SELECT waiting.ctid, waiting.run_at, waiting.priority, waiting.seq {soon})
                UNION ALL
                SELECT ctid, run_at, priority, seq FROM adoptable
                WHERE NOT alone AND run_at > (SELECT now FROM asker)
                    AND run_at <= (SELECT now + :look_ahead FROM asker) AND queue = ANY (ARRAY(SELECT name FROM open))
            ) AS near
            ORDER BY near.run_at, near.priority DESC, near.seq LIMIT :ahead_limit
        ))
        FOR UPDATE SKIP LOCKED
    )) AS due (ctid)
    WHERE waiting.ctid = due.ctid
    RETURNING waiting.*
),
{given}
{claims};
