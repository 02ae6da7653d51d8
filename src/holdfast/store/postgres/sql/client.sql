-- What clients write about jobs that are there, and about queues. $1 is the time, NULL for the server's. Each act upon
-- a job says by its count whether it found the job where it was: workers and other clients act meanwhile.

-- name: ask_to_cancel
-- Leave word for the worker that has job $1.
UPDATE holdfast.claim SET cancel_requested = true WHERE id = $1::uuid;

-- name: revive
-- Make the dead job $2 ready as if it were new; only its fence, its suspicion and its place in the order stay.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now),
was_dead AS (
    DELETE FROM holdfast.outcome WHERE id = $2::uuid AND state = {dead} RETURNING id, queue, fence, alone
),
counted AS (
    INSERT INTO holdfast.tally (queue, state, jobs) SELECT queue, {dead}, -1 FROM was_dead
)
INSERT INTO holdfast.waiting (queue, priority, run_at, seq, id, task, version, fence, alone)
SELECT job.queue, job.priority, moment.now, job.seq, job.id, job.task, job.version, was_dead.fence, was_dead.alone
FROM was_dead JOIN holdfast.job AS job ON job.id = was_dead.id CROSS JOIN moment;

-- name: make_due
-- Let the scheduled job $2 run now.
UPDATE holdfast.waiting SET run_at = moment.now
FROM (SELECT holdfast.present($1::bigint) AS now) AS moment
WHERE id = $2::uuid AND NOT blocked AND run_at > moment.now;

-- name: discard
-- End the dead job $2 as cancelled.
WITH moment AS MATERIALIZED (SELECT holdfast.present($1::bigint) AS now),
ended AS (
    UPDATE holdfast.outcome SET state = {cancelled}, reason = {discarded}, finished_at = moment.now FROM moment
    WHERE id = $2::uuid AND state = {dead} RETURNING queue
)
INSERT INTO holdfast.tally (queue, state, jobs)
SELECT ended.queue, change.state, change.jobs
FROM ended CROSS JOIN (VALUES ({dead}, -1), ({cancelled}, 1)) AS change (state, jobs);

-- name: pause
-- Pause queue $2; one that is paused keeps its time.
INSERT INTO holdfast.queue (name, paused_at) VALUES ($2::text, holdfast.present($1::bigint))
ON CONFLICT (name) DO NOTHING;

-- name: resume
-- Undo a pause of queue $1.
DELETE FROM holdfast.queue WHERE name = $1::text;
