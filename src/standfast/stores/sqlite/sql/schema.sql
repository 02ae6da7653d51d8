-- Statements about a file itself; both files have a standfast_schema of their own.

-- name: schema_table
-- Tell whether this file was ever migrated.
SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = 'standfast_schema';

-- name: schema_version
-- The number of the last migration applied.
SELECT version FROM main.standfast_schema;

-- name: set_schema_version
-- takes: version
-- Note the migration just applied.
UPDATE main.standfast_schema SET version = :version;

-- name: take_write_lock
-- Changes nothing, but takes the write lock of this file alone; BEGIN IMMEDIATE would lock attached files too.
UPDATE main.standfast_schema SET version = version WHERE 0;
