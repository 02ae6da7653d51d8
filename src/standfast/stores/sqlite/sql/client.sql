-- What clients write. {word} stands for a state, or a list of states, of core.states.

-- part: plain_columns
-- What is written of every job.
state, queue, priority, run_at, id, task, version, max_attempts, created_at, payload

-- part: further_columns
-- What is written only of jobs that have more to say.
start_by, on_late, tags, metadata, key, keep_key, reason, after

-- part: plain_values
-- The values of the plain columns.
:state, :queue, :priority, :run_at, :id, :task, :version, :max_attempts, :created_at, :payload

-- part: made_ready
-- A dead job becomes ready as if it were new; only its fence and its suspicion stay.
UPDATE standfast_job
SET state = {ready}, run_at = :now, attempt = 0, crashes = 0, error = NULL, cancel_requested = 0, reason = NULL,
    worker = NULL, finished_at = NULL, progress_done = NULL, progress_total = NULL, progress_note = NULL, replaced = 0

-- part: among
-- A job of a list (JSON).
id IN (SELECT value FROM json_each(:jobs))

-- name: enqueue
-- takes: {plain_columns}
-- Accept one plain job; one that is known already is left as it is.
INSERT INTO standfast_job ({plain_columns}) VALUES ({plain_values})
ON CONFLICT (id) DO NOTHING;

-- name: enqueue_with_more
-- takes: {plain_columns}, {further_columns}
-- Accept one job with all that a job can have; one that is known already is left as it is.
INSERT INTO standfast_job ({plain_columns}, {further_columns})
VALUES ({plain_values}, :start_by, :on_late, :tags, :metadata, :key, :keep_key, :reason, :after)
ON CONFLICT (id) DO NOTHING;

-- name: grow
-- takes: queue, jobs
-- Count so many jobs that a queue was given.
INSERT INTO standfast_size (queue, jobs) VALUES (:queue, :jobs)
ON CONFLICT (queue) DO UPDATE SET jobs = jobs + excluded.jobs;

-- name: grow_by_the_last
-- takes: accepted
-- Count the jobs, so many, that came last: no order of arrival is given twice, and this transaction is alone.
INSERT INTO standfast_size (queue, jobs)
SELECT queue, count(*) FROM (SELECT queue FROM standfast_job ORDER BY seq DESC LIMIT :accepted) GROUP BY queue
ON CONFLICT (queue) DO UPDATE SET jobs = jobs + excluded.jobs;

-- name: index_tags
-- takes: job
-- Make a job to be found by its tags: those in its own row, which an enqueue that is repeated leaves as they are.
INSERT INTO standfast_tag (tag, job)
SELECT tag.value, job.id FROM standfast_job AS job CROSS JOIN json_each(job.tags) AS tag WHERE job.id = :job
ON CONFLICT (tag, job) DO NOTHING;

-- name: is_known
-- takes: job
-- Tell whether there is a job of this id.
SELECT count(*) FROM standfast_job WHERE id = :job;

-- name: key_holder
-- takes: task, key
-- The job that was last accepted with a key of a task.
SELECT job.seq, job.id, job.state, job.run_at, job.finished_at, job.keep_key, job.after
FROM standfast_key AS taken CROSS JOIN standfast_job AS job ON job.id = taken.job
WHERE taken.task = :task AND taken.key = :key;

-- name: give_key
-- takes: task, key, job
-- Note the job that has a key from now on.
INSERT INTO standfast_key (task, key, job) VALUES (:task, :key, :job)
ON CONFLICT (task, key) DO UPDATE SET job = excluded.job;

-- name: mark_replaced
-- takes: job, replaced
-- Note on a claimed job that another waits for its end (1), or no longer does (0).
UPDATE standfast_job SET replaced = :replaced WHERE id = :job;

-- name: job_state
-- takes: job
-- What decides whether a client may move a job.
SELECT seq, task, key, state, reason, run_at, after FROM standfast_job WHERE id = :job;

-- name: cancel_waiting
-- takes: seq, reason, now
-- End a job that nobody has claimed.
UPDATE standfast_job SET state = {cancelled}, reason = :reason, finished_at = :now, after = NULL
WHERE seq = :seq;

-- name: ask_to_cancel
-- takes: seq
-- Leave word for the worker that has the job.
UPDATE standfast_job SET cancel_requested = 1 WHERE seq = :seq;

-- name: revive
-- takes: seq, now
-- Make a dead job ready.
{made_ready}
WHERE seq = :seq;

-- name: make_due
-- takes: seq, now
-- Let a scheduled job run now, whatever it waited for.
UPDATE standfast_job SET state = {ready}, run_at = :now, reason = NULL WHERE seq = :seq;

-- name: reschedule
-- takes: seq, run_at, now
-- Let a job that waits for its time be due at another.
UPDATE standfast_job SET state = CASE WHEN :run_at <= :now THEN {ready} ELSE {scheduled} END, run_at = :run_at
WHERE seq = :seq;

-- name: dead_with_keys
-- takes: jobs
-- The dead ones of some jobs that came with a key.
SELECT id, task, key FROM standfast_job WHERE {among} AND +state = {dead} AND key IS NOT NULL ORDER BY seq;

-- name: revive_many
-- takes: jobs, now
-- Make dead jobs ready that have no key, or to which it was given before.
{made_ready}
WHERE {among} AND +state = {dead} AND (key IS NULL OR id = (
    SELECT taken.job FROM standfast_key AS taken
    WHERE taken.task = standfast_job.task AND taken.key = standfast_job.key
))
RETURNING id;

-- name: make_many_due
-- takes: jobs, now
-- Let scheduled jobs run now, whatever they waited for.
UPDATE standfast_job SET state = {ready}, run_at = :now, reason = NULL
WHERE {among} AND +state = {scheduled} AND +run_at > :now
RETURNING id;

-- name: withdraw_many
-- takes: jobs, now
-- End jobs that nobody has claimed, but for those that are to replace a claimed one.
UPDATE standfast_job SET state = {cancelled}, reason = {requested}, finished_at = :now
WHERE {among} AND +state IN {waiting} AND after IS NULL
RETURNING id;

-- name: ask_many_to_cancel
-- takes: jobs, now
-- Leave word for the workers that have the jobs, whatever the time.
UPDATE standfast_job SET cancel_requested = 1
WHERE {among} AND +state IN {claimed} AND :now IS NOT NULL
RETURNING id;

-- name: discard_many
-- takes: jobs, now
-- End dead jobs as cancelled.
UPDATE standfast_job SET state = {cancelled}, reason = {discarded}, finished_at = :now, after = NULL
WHERE {among} AND +state = {dead}
RETURNING id;

-- name: reschedule_many
-- takes: jobs, now, run_at
-- Let jobs that wait for their time be due at another, but for those that have given their slot back on purpose.
UPDATE standfast_job SET state = CASE WHEN :run_at <= :now THEN {ready} ELSE {scheduled} END, run_at = :run_at
WHERE {among} AND +state IN ({ready}, {scheduled}) AND coalesce(reason, '') <> 'sleep' AND coalesce(reason, '') NOT GLOB 'signal:*'
RETURNING id;

-- name: pause
-- takes: queue, now
-- Pause a queue; one that is paused keeps its time.
INSERT INTO standfast_queue (name, paused_at) VALUES (:queue, :now) ON CONFLICT (name) DO NOTHING;

-- name: resume
-- takes: queue
-- Undo a pause.
DELETE FROM standfast_queue WHERE name = :queue;
