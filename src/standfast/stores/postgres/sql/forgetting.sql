-- How jobs that are over and done with are forgotten. There is no index by the time of their end, which every
-- completion would have to pay for: outcomes are walked in the order of their ids, which is about that of their
-- arrival, a stretch at a time.
--
-- Nothing here waits for anybody. Of two who forget at once, each takes what the other has not locked; so does one
-- who meets a sweep. A key that is locked is being given to another job: if that comes to nothing, its row stays
-- and means nothing, as the job in it is gone.

-- part: they_go
-- Those that were chosen are forgotten, with all that belongs to them, and counted no more.
over AS MATERIALIZED (
    SELECT id, queue, state, result_until FROM standfast.outcome
    WHERE id = ANY (ARRAY(SELECT id FROM chosen)) FOR UPDATE SKIP LOCKED
),
their_keys AS (
    DELETE FROM standfast.key WHERE ctid = ANY (ARRAY(
        SELECT taken.ctid FROM over JOIN chosen ON chosen.id = over.id
        JOIN standfast.key AS taken ON taken.task = chosen.task AND taken.key = chosen.key AND taken.id = chosen.id
        FOR UPDATE OF taken SKIP LOCKED
    ))
),
their_fading AS (
    DELETE FROM standfast.fading WHERE ctid = ANY (ARRAY(
        SELECT fading.ctid FROM over
        JOIN standfast.fading AS fading ON fading.until_at = over.result_until AND fading.id = over.id
        FOR UPDATE OF fading SKIP LOCKED
    ))
),
their_tags AS (
    DELETE FROM standfast.tag AS tag USING (
        SELECT unnest(chosen.tags) AS tag, chosen.id FROM over JOIN chosen ON chosen.id = over.id
    ) AS listed
    WHERE tag.tag = listed.tag AND tag.id = listed.id
),
their_attempts AS (
    DELETE FROM standfast.attempt WHERE id = ANY (ARRAY(SELECT id FROM over))
),
their_memos AS (
    DELETE FROM standfast.memo WHERE id = ANY (ARRAY(SELECT id FROM over))
),
their_groups AS (
    DELETE FROM standfast.suspect WHERE id = ANY (ARRAY(SELECT id FROM over))
),
their_notes AS (
    DELETE FROM standfast.note WHERE id = ANY (ARRAY(SELECT id FROM over))
),
their_outcomes AS (
    DELETE FROM standfast.outcome WHERE id = ANY (ARRAY(SELECT id FROM over))
),
they AS (
    DELETE FROM standfast.job WHERE id = ANY (ARRAY(SELECT id FROM over))
),
counted AS (
    INSERT INTO standfast.tally (queue, state, jobs) SELECT queue, state, -count(*) FROM over GROUP BY queue, state
)

-- name: forget_jobs
-- takes: now bigint, age bigint, start uuid, stretch bigint, limit bigint
-- Of a stretch of outcomes from the start on, forget at most `limit` that completed or were cancelled so long ago
-- or earlier, and whose key is kept no longer. Tells how many; the first id of the stretch; and from where to go
-- on: NULL if the stretch is the last, or all of it so young that nothing behind it can be over.
WITH {moment},
stretch AS MATERIALIZED (
    SELECT id, state, finished_at FROM standfast.outcome WHERE id >= :start ORDER BY id LIMIT :stretch
),
chosen AS MATERIALIZED (
    SELECT old.id, job.task, job.key, job.tags
    FROM (
        SELECT * FROM stretch
        WHERE state IN ({completed}, {cancelled}) AND finished_at <= (SELECT now - :age FROM moment)
        ORDER BY id OFFSET 0
    ) AS old
    CROSS JOIN LATERAL (
        SELECT task, key, keep_key, tags FROM standfast.job AS asked_for WHERE asked_for.id = old.id OFFSET 0
    ) AS job
    WHERE job.key IS NULL OR old.state = {cancelled} OR old.finished_at + job.keep_key <= (SELECT now FROM moment)
    LIMIT :limit
),
{they_go}
SELECT (SELECT count(*) FROM over), (SELECT id FROM stretch ORDER BY id LIMIT 1)::text, CASE
    WHEN (SELECT count(*) FROM chosen) = :limit THEN (SELECT id FROM chosen ORDER BY id DESC LIMIT 1)
    WHEN (SELECT count(*) FROM stretch) = :stretch AND EXISTS (
        SELECT FROM stretch CROSS JOIN LATERAL (
            SELECT created_at FROM standfast.job AS asked_for WHERE asked_for.id = stretch.id OFFSET 0
        ) AS job
        WHERE job.created_at <= (SELECT now - :age FROM moment)
    ) THEN (SELECT id FROM stretch ORDER BY id DESC LIMIT 1)
END::text;

-- name: forget_dead
-- takes: now bigint, age bigint, start uuid, stretch bigint, limit bigint
-- Of a stretch of dead jobs from the start on, forget at most `limit` that died so long ago or earlier. Tells how many,
-- and from where to go on: NULL if the stretch is the last, or its last one came so lately that nothing behind it can
-- have died long ago.
WITH {moment},
stretch AS MATERIALIZED (
    SELECT id, finished_at FROM standfast.outcome WHERE state = {dead} AND id >= :start ORDER BY id LIMIT :stretch
),
chosen AS MATERIALIZED (
    SELECT old.id, job.task, job.key, job.tags
    FROM (
        SELECT * FROM stretch WHERE finished_at <= (SELECT now - :age FROM moment) ORDER BY id LIMIT :limit
    ) AS old
    CROSS JOIN LATERAL (
        SELECT task, key, tags FROM standfast.job AS asked_for WHERE asked_for.id = old.id OFFSET 0
    ) AS job
),
{they_go}
SELECT (SELECT count(*) FROM over), CASE
    WHEN (SELECT count(*) FROM chosen) = :limit THEN :start
    WHEN (SELECT count(*) FROM stretch) = :stretch THEN (
        SELECT last.id
        FROM (SELECT id FROM stretch ORDER BY id DESC LIMIT 1) AS last
        CROSS JOIN LATERAL (
            SELECT created_at FROM standfast.job AS asked_for WHERE asked_for.id = last.id OFFSET 0
        ) AS job
        WHERE job.created_at <= (SELECT now - :age FROM moment)
    )
END::text;

-- name: forget_surplus_dead
-- takes: keep bigint, limit bigint
-- Forget at most `limit` of the oldest dead jobs, if there are more than are kept. Tells how many.
WITH chosen AS MATERIALIZED (
    SELECT old.id, job.task, job.key, job.tags
    FROM (
        SELECT id FROM standfast.outcome WHERE state = {dead} AND id <= (
            SELECT id FROM standfast.outcome WHERE state = {dead} ORDER BY id DESC OFFSET :keep LIMIT 1
        )
        ORDER BY id LIMIT :limit
    ) AS old
    CROSS JOIN LATERAL (
        SELECT task, key, tags FROM standfast.job AS asked_for WHERE asked_for.id = old.id OFFSET 0
    ) AS job
),
{they_go}
SELECT count(*) FROM over;
