-- The bell. Who sleeps until it rings holds an advisory lock, shared, on the connection that listens: so the server
-- knows who waits without a row anywhere, and forgets whoever is gone. Locks are in no table, so a snapshot that is
-- held open for hours makes none of this slower.

-- name: ring
-- Notify, if anyone waits: only then can the lock not be had alone. It is let go at once, with the transaction.
SELECT pg_notify($2::text, '') WHERE NOT pg_try_advisory_xact_lock($1::bigint);

-- name: start_waiting
SELECT pg_advisory_lock_shared($1::bigint);

-- name: stop_waiting
SELECT pg_advisory_unlock_shared($1::bigint);
