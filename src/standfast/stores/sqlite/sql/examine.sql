-- What doctor looks at. All of it by indexes, or in small tables.

-- name: namespaces
-- The schema tables of every namespace in this file.
SELECT name FROM main.sqlite_master WHERE type = 'table' AND name GLOB 'standfast_*schema' ORDER BY name;

-- name: due_queues
-- takes: now
-- The due jobs that nobody has claimed, by queue: how many, and since when the oldest is due.
SELECT queue, count(*), min(run_at) FROM (
    SELECT queue, run_at FROM standfast_job WHERE state = {ready} AND run_at <= :now
    UNION ALL
    SELECT queue, run_at FROM standfast_job WHERE state = {scheduled} AND run_at <= :now
) GROUP BY queue ORDER BY queue;

-- name: put_aside
-- The tasks, each with a version of their payloads, that workers did not know, and how many jobs they put aside.
SELECT task, version, count(*) FROM standfast_job WHERE state = {blocked} AND reason = {no_worker} GROUP BY task, version ORDER BY task, version;

-- name: dead_count
-- How many jobs are dead.
SELECT count(*) FROM standfast_job WHERE state = {dead};

-- name: latest_time
-- The latest time that was ever the present here: of the job with the newest id, of workers and of pauses.
SELECT max(at) FROM (
    SELECT max(started_at) AS at FROM standfast_worker
    UNION ALL SELECT max(paused_at) FROM standfast_queue
    UNION ALL SELECT created_at FROM standfast_job WHERE id = (SELECT max(id) FROM standfast_job)
);
