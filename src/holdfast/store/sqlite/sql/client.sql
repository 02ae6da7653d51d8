-- What clients write. {word} stands for a state, or a list of states, of core.states.

-- name: enqueue
-- Accept one job; one that is known already is left as it is.
INSERT INTO holdfast_job (state, queue, priority, run_at, id, task, version, max_attempts, created_at, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO NOTHING;

-- name: job_state
-- What decides whether a client may move a job.
SELECT seq, state, run_at FROM holdfast_job WHERE id = ?1;

-- name: cancel_waiting
-- End a job that nobody has claimed.
UPDATE holdfast_job SET state = {cancelled}, reason = ?2, finished_at = ?3, until_at = NULL WHERE seq = ?1;

-- name: ask_to_cancel
-- Leave word for the worker that has the job.
UPDATE holdfast_job SET cancel_requested = 1 WHERE seq = ?1;

-- name: revive
-- Make a dead job ready as if it were new; only its fence and its suspicion stay.
UPDATE holdfast_job
SET state = {ready}, run_at = ?2, attempt = 0, crashes = 0, error = NULL, cancel_requested = 0, reason = NULL,
    worker = NULL, finished_at = NULL, progress_done = NULL, progress_total = NULL
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
