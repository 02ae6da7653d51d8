-- The bell. Who sleeps until it rings holds an advisory lock, shared, on the connection that listens: so the server
-- knows who waits without a row anywhere, and forgets whoever is gone. Locks are in no table, so a snapshot that is
-- held open for hours makes none of this slower.

-- name: ring
-- takes: lock bigint, channel text
-- Notify, if anyone waits: only then can the lock not be had alone. It is let go at once, with the transaction.
SELECT pg_notify(:channel, '') WHERE NOT pg_try_advisory_xact_lock(:lock);

-- name: start_waiting
-- takes: lock bigint
-- Be among those who wait.
SELECT pg_advisory_lock_shared(:lock);

-- name: stop_waiting
-- takes: lock bigint
-- Be among them no more.
SELECT pg_advisory_unlock_shared(:lock);
