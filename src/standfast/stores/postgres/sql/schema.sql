-- Statements about the schema itself.

-- name: schema_version
-- The number of the last migration applied, and the oldest release that can work with it.
SELECT version, oldest FROM standfast.schema_version;

-- name: schema_parts
-- takes: schema text
-- What there is already: the schema, and the table with its version. Needs no rights on either.
SELECT
    EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :schema),
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = :schema AND c.relname = 'schema_version'
    );

-- name: migration_lock
-- takes: schema text
-- Held until the end of the transaction: so two that start at once do no harm.
SELECT pg_advisory_xact_lock(hashtextextended('standfast/' || :schema, 0));

-- name: create_schema_version
-- Make the table that says which migrations were applied.
CREATE TABLE standfast.schema_version (version integer NOT NULL, oldest integer NOT NULL);

-- name: clear_schema_version
-- Say nothing of migrations, before it is said anew.
DELETE FROM standfast.schema_version;

-- name: set_schema_version
-- takes: version integer, oldest integer
-- Note the migration just applied, and the oldest release that can work with it.
INSERT INTO standfast.schema_version (version, oldest) VALUES (:version, :oldest);
