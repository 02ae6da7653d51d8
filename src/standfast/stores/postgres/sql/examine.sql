-- What doctor looks at. Nothing here writes, or waits for anybody.

-- name: server_settings
-- takes: names text[]
-- These settings as this user's connections have them.
SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY (:names);

-- name: server_state
-- Whether it is a replica, which of its processes serves us, and how many connections it has.
SELECT pg_is_in_recovery(), pg_backend_pid(),
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend');

-- name: oldest_transactions
-- The oldest transaction that has written (true), and the oldest snapshot that keeps old rows from being cleared
-- away (false): its process, NULL for a prepared one, its name, and its age in seconds. As far as this user may see
-- them.
SELECT DISTINCT ON (writes) writes, pid, name, seconds FROM (
    SELECT true AS writes, pid, application_name AS name, extract(epoch FROM clock_timestamp() - xact_start) AS age
    FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT true, NULL, gid, extract(epoch FROM clock_timestamp() - prepared) FROM pg_catalog.pg_prepared_xacts
    UNION ALL
    SELECT false, pid, application_name, extract(epoch FROM clock_timestamp() - xact_start)
    FROM pg_catalog.pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
        AND (datname = current_database() OR datname IS NULL)
) AS opened CROSS JOIN LATERAL (SELECT age::bigint AS seconds) AS aged
WHERE seconds IS NOT NULL ORDER BY writes, seconds DESC;

-- name: namespaces
-- takes: schema text
-- Every schema of ours with this name, or with that and a namespace.
SELECT n.nspname::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'schema_version' AND (n.nspname = :schema OR starts_with(n.nspname::text, :schema || '_'))
ORDER BY n.nspname;

-- name: schema_size
-- takes: schema text
-- How many bytes the tables of a schema take, their indexes included.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r';

-- name: database_rights
-- Whether this user may make schemas.
SELECT has_database_privilege(current_database(), 'CREATE');

-- name: schema_rights
-- takes: schema text
-- Whether this user may use a schema and make tables in it; and what of it this user may not read and write.
SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'), ARRAY(
    SELECT c.relname::text FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = n.oid AND CASE c.relkind
        WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE')
        ELSE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT (
            has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
            AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
        )
    END
    ORDER BY c.relname
)
FROM pg_catalog.pg_namespace AS n WHERE n.nspname = :schema;

-- name: due_queues
-- takes: now bigint
-- The due jobs that nobody has claimed, by queue: the time, the queue, since when it is
-- paused, how many they are, and since when the oldest is due. One row without a queue is there for the time alone.
WITH {moment}
SELECT moment.now, NULL AS queue, NULL::bigint AS paused_at, NULL::bigint AS jobs, NULL::bigint AS oldest FROM moment
UNION ALL
SELECT moment.now, due.queue, (SELECT paused_at FROM standfast.queue WHERE name = due.queue), count(*), min(due.run_at)
FROM moment CROSS JOIN (
    SELECT queue, run_at FROM standfast.fresh
    UNION ALL
    SELECT queue, run_at FROM standfast.waiting WHERE NOT blocked AND run_at <= (SELECT now FROM moment)
) AS due
GROUP BY moment.now, due.queue;

-- name: put_aside
-- The tasks, each with a version of their payloads, that workers did not know, and how many jobs they put aside.
SELECT task, version, count(*) FROM standfast.waiting WHERE blocked AND reason = {no_worker} GROUP BY task, version ORDER BY task, version;

-- name: dead_count
-- How many jobs are dead.
SELECT count(*) FROM standfast.outcome WHERE state = {dead};

-- name: level_count
-- How many levels claims look at.
SELECT count(*) FROM (SELECT DISTINCT queue, priority FROM standfast.level) AS seen;

-- name: latest_time
-- The latest time that was ever the present here: of the job with the newest id, of workers and of pauses.
SELECT greatest(
    (SELECT max(greatest(started_at, beat_at)) FROM standfast.worker),
    (SELECT max(paused_at) FROM standfast.queue),
    (SELECT created_at FROM standfast.job ORDER BY id DESC LIMIT 1)
);

-- name: misplaced
-- How many jobs are nowhere in their life, how many in several places of it, and how many places have no job.
SELECT count(*) FILTER (WHERE place.id IS NULL), count(*) FILTER (WHERE place.times > 1),
    count(*) FILTER (WHERE job.id IS NULL)
FROM standfast.job AS job FULL JOIN (
    SELECT id, count(*) AS times FROM (
        SELECT id FROM standfast.fresh UNION ALL SELECT id FROM standfast.waiting
        UNION ALL SELECT id FROM standfast.claim UNION ALL SELECT id FROM standfast.outcome
    ) AS everywhere GROUP BY id
) AS place ON place.id = job.id;
