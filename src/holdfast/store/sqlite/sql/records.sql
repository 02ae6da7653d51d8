-- Records and fires. A change is compared and written under one write lock, so that of many one is made.

-- part: record_columns
-- All that is shown of a record. The cast is for what someone changed by hand: readers get bytes.
kind, name, version, due_at, CAST(body AS BLOB), token

-- part: fire_columns
-- All that is shown of a fire.
schedule, planned, decision, cause, count, until_at, job, note, decided_at

-- name: records
-- The records of kind ?1 with the names ?2 (JSON; NULL for all), by name.
SELECT {record_columns} FROM holdfast_record
WHERE kind = ?1 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2))) ORDER BY name;

-- name: due_records
-- The first ?3 records of kind ?1 that are due at ?2, the longest due first.
SELECT {record_columns} FROM holdfast_record INDEXED BY holdfast_agenda
WHERE kind = ?1 AND due_at <= ?2 ORDER BY due_at, name LIMIT ?3;

-- name: next_record
-- When the first record of all is due.
SELECT min(due_at) FROM holdfast_record WHERE due_at IS NOT NULL;

-- name: record_version
-- What decides whether a record may be changed.
SELECT version, token FROM holdfast_record WHERE kind = ?1 AND name = ?2;

-- name: write_record
-- Write a version of a record.
INSERT INTO holdfast_record (kind, name, version, token, due_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (kind, name) DO UPDATE
SET version = excluded.version, token = excluded.token, due_at = excluded.due_at, body = excluded.body;

-- name: forget_record
-- Forget a record.
DELETE FROM holdfast_record WHERE kind = ?1 AND name = ?2;

-- name: write_fire
-- Write what was decided about a fire, in the place of what was decided before.
INSERT INTO holdfast_fire ({fire_columns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (schedule, planned, cause) DO UPDATE
SET decision = excluded.decision, count = excluded.count, until_at = excluded.until_at, job = excluded.job,
    note = excluded.note, decided_at = excluded.decided_at;

-- name: forget_fires
-- Forget the fires of schedule ?1.
DELETE FROM holdfast_fire WHERE schedule = ?1;

-- name: forget_old_fires
-- Forget the fires of schedule ?1 that were planned before the last ?2 of them.
DELETE FROM holdfast_fire
WHERE schedule = ?1 AND planned < (
    SELECT planned FROM holdfast_fire WHERE schedule = ?1 ORDER BY planned DESC LIMIT 1 OFFSET ?2 - 1
);

-- name: fires_of
-- The last ?2 fires of schedule ?1 that were planned before ?3, and all planned for the same time as the first of them.
SELECT {fire_columns} FROM holdfast_fire
WHERE schedule = ?1 AND planned < ?3 AND planned >= (
    SELECT min(planned) FROM (
        SELECT planned FROM holdfast_fire WHERE schedule = ?1 AND planned < ?3 ORDER BY planned DESC LIMIT ?2
    )
)
ORDER BY planned DESC, cause DESC;

-- name: fires
-- The same of all schedules together.
SELECT {fire_columns} FROM holdfast_fire
WHERE planned < ?2 AND planned >= (
    SELECT min(planned) FROM (SELECT planned FROM holdfast_fire WHERE planned < ?2 ORDER BY planned DESC LIMIT ?1)
)
ORDER BY planned DESC, schedule DESC, cause DESC;
