-- Records and fires. A change is compared and written under one write lock, so that of many one is made.

-- part: record_columns
-- All that is shown of a record. The cast is for what someone changed by hand: readers get bytes.
kind, name, version, due_at, CAST(body AS BLOB), token

-- part: fire_columns
-- All that is shown of a fire.
schedule, planned, decision, cause, count, until_at, job, note, decided_at

-- name: records
-- takes: kind, names
-- The records of a kind with these names (JSON; NULL for all), by name.
SELECT {record_columns} FROM standfast_record
WHERE kind = :kind AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) ORDER BY name;

-- name: due_records
-- takes: kind, due_by, limit
-- The first records of a kind that are due by a time, the longest due first.
SELECT {record_columns} FROM standfast_record INDEXED BY standfast_agenda
WHERE kind = :kind AND due_at <= :due_by ORDER BY due_at, name LIMIT :limit;

-- name: next_record
-- When the first record of all is due.
SELECT min(due_at) FROM standfast_record WHERE due_at IS NOT NULL;

-- name: record_version
-- takes: kind, name
-- What decides whether a record may be changed.
SELECT version, token FROM standfast_record WHERE kind = :kind AND name = :name;

-- name: write_record
-- takes: kind, name, version, token, due_at, body
-- Write a version of a record.
INSERT INTO standfast_record (kind, name, version, token, due_at, body)
VALUES (:kind, :name, :version, :token, :due_at, :body)
ON CONFLICT (kind, name) DO UPDATE
SET version = excluded.version, token = excluded.token, due_at = excluded.due_at, body = excluded.body;

-- name: forget_record
-- takes: kind, name
-- Forget a record.
DELETE FROM standfast_record WHERE kind = :kind AND name = :name;

-- name: write_fire
-- takes: {fire_columns}
-- Write what was decided about a fire, in the place of what was decided before.
INSERT INTO standfast_fire ({fire_columns})
VALUES (:schedule, :planned, :decision, :cause, :count, :until_at, :job, :note, :decided_at)
ON CONFLICT (schedule, planned, cause) DO UPDATE
SET decision = excluded.decision, count = excluded.count, until_at = excluded.until_at, job = excluded.job,
    note = excluded.note, decided_at = excluded.decided_at;

-- name: forget_fires
-- takes: schedule
-- Forget the fires of a schedule.
DELETE FROM standfast_fire WHERE schedule = :schedule;

-- name: forget_old_fires
-- takes: schedule, kept
-- Forget the fires of a schedule that were planned before the last ones, which are kept.
DELETE FROM standfast_fire
WHERE schedule = :schedule AND planned < (
    SELECT planned FROM standfast_fire WHERE schedule = :schedule ORDER BY planned DESC LIMIT 1 OFFSET :kept - 1
);

-- name: fires_of
-- takes: schedule, limit, before
-- The last fires of a schedule that were planned before a time, and all planned for the same time as the first of
-- them.
SELECT {fire_columns} FROM standfast_fire
WHERE schedule = :schedule AND planned < :before AND planned >= (
    SELECT min(planned) FROM (
        SELECT planned FROM standfast_fire WHERE schedule = :schedule AND planned < :before
        ORDER BY planned DESC LIMIT :limit
    )
)
ORDER BY planned DESC, cause DESC;

-- name: fires
-- takes: limit, before
-- The same of all schedules together.
SELECT {fire_columns} FROM standfast_fire
WHERE planned < :before AND planned >= (
    SELECT min(planned) FROM (
        SELECT planned FROM standfast_fire WHERE planned < :before ORDER BY planned DESC LIMIT :limit
    )
)
ORDER BY planned DESC, schedule DESC, cause DESC;
