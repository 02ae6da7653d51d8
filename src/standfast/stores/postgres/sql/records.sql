-- Records, which change by comparison of versions, and the fires that are written with them.

-- part: record_columns
-- All that is shown of a record.
kind, name, version, due_at, body, token

-- part: fire_columns
-- All that is shown of a fire.
schedule, planned, decision, cause, count, until_at, job_id, note, decided_at

-- name: lock_creation
-- Held until the end of the transaction: nobody else makes records. So who makes one sees every other that was made
-- before, and does not have to wait for it in the middle of others, where it would be out of order.
SELECT pg_advisory_xact_lock(hashtextextended('standfast.record', 0));

-- name: change_records
-- takes: now bigint
-- takes: kinds text[], names text[], seens bigint[], afters text[], tokens text[], due_ats bigint[], bodies bytea[]
-- takes: places bigint[], schedules text[], planned bigint[], causes text[], decisions text[], counts bigint[]
-- takes: until_ats bigint[], jobs text[], notes text[]
-- Change, make or forget (NULL body) the records that have the versions seen, 0 for none, and the tokens `afters`,
-- NULL for any. With those that are changed or made go the fires, whose places say to which of them each belongs.
--
-- They are locked in the order of kind and name, whatever the order given: so two who change the same ones wait in
-- no circle, and who comes second compares with what the first has written. Who makes some must have the lock for
-- that.
--
-- Tells for each, in the order given, whether it was made, now or before; and whether it was now.
WITH {moment},
asked AS MATERIALIZED (
    SELECT * FROM unnest(:kinds, :names, :seens, :afters, :tokens, :due_ats, :bodies)
        WITH ORDINALITY AS asked (kind, name, seen, after, token, due_at, body, place)
),
found AS MATERIALIZED (
    SELECT asked.place, record.version, record.token
    FROM (SELECT place, kind, name FROM asked ORDER BY kind COLLATE "C", name COLLATE "C" OFFSET 0) AS asked
    CROSS JOIN LATERAL (
        SELECT version, token FROM standfast.record AS record
        WHERE record.kind = asked.kind AND record.name = asked.name FOR UPDATE
    ) AS record
),
as_seen AS MATERIALIZED (
    SELECT asked.* FROM asked JOIN found ON found.place = asked.place
    WHERE found.version = asked.seen AND (asked.after IS NULL OR asked.after = found.token)
),
changed AS (
    UPDATE standfast.record AS record
    SET version = record.version + 1, due_at = as_seen.due_at, token = as_seen.token, body = as_seen.body
    FROM as_seen WHERE record.kind = as_seen.kind AND record.name = as_seen.name AND as_seen.body IS NOT NULL
    RETURNING as_seen.place
),
forgotten AS (
    DELETE FROM standfast.record AS record USING as_seen
    WHERE record.kind = as_seen.kind AND record.name = as_seen.name AND as_seen.body IS NULL
    RETURNING as_seen.place
),
created AS (
    INSERT INTO standfast.record (kind, name, version, due_at, token, body)
    SELECT kind, name, 1, due_at, token, body FROM asked
    WHERE seen = 0 AND body IS NOT NULL AND place <> ALL (ARRAY(SELECT place FROM found))
    RETURNING kind, name
),
written AS MATERIALIZED (
    SELECT place FROM changed
    UNION ALL
    SELECT asked.place FROM created JOIN asked ON asked.kind = created.kind AND asked.name = created.name
),
noted AS (
    INSERT INTO standfast.fire (schedule, planned, cause, decision, count, until_at, job_id, note, decided_at)
    SELECT DISTINCT ON (fire.schedule, fire.planned, fire.cause)
        fire.schedule, fire.planned, fire.cause, fire.decision, fire.count, fire.until_at, fire.job_id, fire.note,
        moment.now
    FROM moment CROSS JOIN unnest(
        :places, :schedules, :planned, :causes, :decisions, :counts, :until_ats, :jobs, :notes
    ) WITH ORDINALITY
        AS fire (place, schedule, planned, cause, decision, count, until_at, job_id, note, number)
    JOIN written ON written.place = fire.place
    ORDER BY fire.schedule, fire.planned, fire.cause, fire.number DESC
    ON CONFLICT (schedule, planned, cause) DO UPDATE SET decision = excluded.decision, count = excluded.count,
        until_at = excluded.until_at, job_id = excluded.job_id, note = excluded.note, decided_at = excluded.decided_at
)
SELECT
    done.place IS NOT NULL OR (asked.body IS NULL AND found.place IS NULL)
        OR coalesce(found.version = asked.seen + 1 AND found.token = asked.token, false),
    done.place IS NOT NULL
FROM asked
LEFT JOIN found ON found.place = asked.place
LEFT JOIN (SELECT place FROM written UNION ALL SELECT place FROM forgotten) AS done ON done.place = asked.place
ORDER BY asked.place;

-- name: forget_old_fires
-- takes: schedules text[], kept bigint
-- Forget all but the latest fires of each of the schedules, whose records are locked.
DELETE FROM standfast.fire WHERE ctid = ANY (ARRAY(
    SELECT fire.ctid FROM unnest(:schedules) AS asked (schedule) CROSS JOIN LATERAL (
        SELECT old.ctid FROM standfast.fire AS old WHERE old.schedule = asked.schedule
        ORDER BY old.planned DESC, old.cause DESC OFFSET :kept
    ) AS fire
));

-- name: forget_fires
-- takes: schedules text[], kind text
-- Forget the fires of those of the schedules, which are records of this kind, that are there no more.
DELETE FROM standfast.fire WHERE schedule = ANY (ARRAY(
    SELECT asked.schedule FROM unnest(:schedules) AS asked (schedule)
    WHERE NOT EXISTS (SELECT FROM standfast.record WHERE kind = :kind AND name = asked.schedule)
));

-- name: records_of
-- takes: kind text
-- All records of a kind by name.
SELECT {record_columns} FROM standfast.record WHERE kind = :kind ORDER BY name;

-- name: records_named
-- takes: kind text, names text[]
-- Those of a kind that have one of the names, by name.
SELECT {record_columns} FROM standfast.record
WHERE kind = :kind AND name = ANY (:names) ORDER BY name;

-- name: due_records
-- takes: now bigint, kind text, ahead bigint, limit bigint
-- The records of a kind that are due so far from now, the longest due first, and before each the time; without any,
-- the time alone. The kind is compared in such a way that only the index by time will do.
WITH {moment}
SELECT moment.now, due.kind, due.name, due.version, due.due_at, due.body, due.token
FROM moment LEFT JOIN LATERAL (
    SELECT {record_columns} FROM standfast.record
    WHERE kind || '' = :kind AND due_at <= (SELECT now + :ahead FROM moment)
    ORDER BY due_at, name LIMIT :limit
) AS due ON true
ORDER BY due.due_at, due.name;

-- name: next_record_due
-- When the first of all records is due.
SELECT min(due_at) FROM standfast.record;

-- name: fires
-- takes: before bigint, limit bigint
-- The latest fires that are planned before a time, NULL for any; and those planned for the same time as the last.
SELECT {fire_columns} FROM (
    SELECT * FROM standfast.fire WHERE planned < coalesce(:before, 9223372036854775807)
    ORDER BY planned DESC FETCH FIRST (:limit) ROWS WITH TIES
) AS page
ORDER BY planned DESC, schedule DESC, cause DESC;

-- name: fires_of
-- takes: before bigint, limit bigint, schedule text
-- The same of one schedule.
SELECT {fire_columns} FROM (
    SELECT * FROM standfast.fire
    WHERE schedule = :schedule AND planned < coalesce(:before, 9223372036854775807)
    ORDER BY planned DESC FETCH FIRST (:limit) ROWS WITH TIES
) AS page
ORDER BY planned DESC, cause DESC;
