-- Statements about the schema itself.

-- name: schema_version
-- The number of the last migration applied, and the oldest release that can work with it.
SELECT version, oldest FROM holdfast.schema_version;

-- name: schema_parts
-- What there is already: the schema, and the table with its version. Needs no rights on either.
SELECT
    EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text),
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname = 'schema_version'
    );

-- name: migration_lock
-- Held until the end of the transaction: so two that start at once do no harm.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast/' || $1::text, 0));

-- name: create_schema_version
CREATE TABLE holdfast.schema_version (version integer NOT NULL, oldest integer NOT NULL);

-- name: clear_schema_version
DELETE FROM holdfast.schema_version;

-- name: set_schema_version
INSERT INTO holdfast.schema_version (version, oldest) VALUES ($1::integer, $2::integer);
