-- What is asked about the surroundings of a connection of the user's own.

-- name: surroundings
-- Which database this is, and since when its server runs: so no two servers are taken for one, copies included. In
-- seconds, because how a time is written depends on the session.
SELECT current_database()::text, extract(epoch FROM pg_postmaster_start_time())::text;
