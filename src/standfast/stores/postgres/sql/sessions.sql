-- Locks of the server itself, each on a connection of its own: it has the lock for as long as that lives.
-- `lock` is a number that stands for the name of the lock, in this schema.

-- name: limit_lock_wait
-- takes: span text
-- Wait no longer than this for a lock, in this session.
SELECT set_config('lock_timeout', :span, false);

-- name: take_session_lock
-- takes: lock bigint
-- Have the lock, after all who asked before.
SELECT pg_advisory_lock(:lock);

-- name: leave_session_lock
-- takes: lock bigint
-- Let others have it.
SELECT pg_advisory_unlock(:lock);

-- name: session_lock_holders
-- takes: locks bigint[]
-- Who has these locks: the process of the server, and where its client is, if it came by the network.
SELECT asked.lock, held.pid, host(session.client_addr)
FROM unnest(:locks) AS asked (lock)
JOIN pg_catalog.pg_locks AS held
    ON held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
    AND (held.classid::bigint << 32) | held.objid::bigint = asked.lock
JOIN pg_catalog.pg_database AS here ON here.oid = held.database AND here.datname = current_database()
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid = held.pid;
