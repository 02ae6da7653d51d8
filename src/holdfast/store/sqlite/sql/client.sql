-- What clients write. {word} stands for a state, or a list of states, of core.states.

-- name: enqueue
-- Accept one plain job; one that is known already is left as it is.
INSERT INTO holdfast_job (state, queue, priority, run_at, id, task, version, max_attempts, created_at, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO NOTHING;

-- name: enqueue_with_more
-- Accept one job with all that a job can have; one that is known already is left as it is.
INSERT INTO holdfast_job (state, queue, priority, run_at, id, task, version, max_attempts, created_at, payload,
    start_by, on_late, tags, metadata, key, keep_key, reason, after)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (id) DO NOTHING;

-- name: index_tags
-- Make a job to be found by its tags: those in its own row, which an enqueue that is repeated leaves as they are.
INSERT INTO holdfast_tag (tag, job)
SELECT tag.value, job.id FROM holdfast_job AS job CROSS JOIN json_each(job.tags) AS tag WHERE job.id = ?1
ON CONFLICT (tag, job) DO NOTHING;

-- name: is_known
-- Tell whether there is a job of this id.
SELECT count(*) FROM holdfast_job WHERE id = ?1;

-- name: key_holder
-- The job that was last accepted with key ?2 of task ?1.
SELECT job.seq, job.id, job.state, job.run_at, job.finished_at, job.keep_key, job.after
FROM holdfast_key AS taken CROSS JOIN holdfast_job AS job ON job.id = taken.job
WHERE taken.task = ?1 AND taken.key = ?2;

-- name: give_key
-- Note the job that has a key from now on.
INSERT INTO holdfast_key (task, key, job) VALUES (?1, ?2, ?3)
ON CONFLICT (task, key) DO UPDATE SET job = excluded.job;

-- name: mark_replaced
-- Note on a claimed job that another waits for its end (1), or no longer does (0).
UPDATE holdfast_job SET replaced = ?2 WHERE id = ?1;

-- name: job_state
-- What decides whether a client may move a job.
SELECT seq, task, key, state, run_at, after FROM holdfast_job WHERE id = ?1;

-- name: cancel_waiting
-- End a job that nobody has claimed.
UPDATE holdfast_job SET state = {cancelled}, reason = ?2, finished_at = ?3, until_at = NULL, after = NULL
WHERE seq = ?1;

-- name: ask_to_cancel
-- Leave word for the worker that has the job.
UPDATE holdfast_job SET cancel_requested = 1 WHERE seq = ?1;

-- name: revive
-- Make a dead job ready as if it were new; only its fence and its suspicion stay.
UPDATE holdfast_job
SET state = {ready}, run_at = ?2, attempt = 0, crashes = 0, error = NULL, cancel_requested = 0, reason = NULL,
    worker = NULL, finished_at = NULL, progress_done = NULL, progress_total = NULL, replaced = 0
WHERE seq = ?1;

-- name: make_due
-- Let a scheduled job run now.
UPDATE holdfast_job SET state = {ready}, run_at = ?2 WHERE seq = ?1;

-- name: pause
-- Pause a queue; one that is paused keeps its time.
INSERT INTO holdfast_queue (name, paused_at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING;

-- name: resume
-- Undo a pause.
DELETE FROM holdfast_queue WHERE name = ?1;
