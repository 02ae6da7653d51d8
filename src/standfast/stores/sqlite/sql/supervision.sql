-- Workers: their registration, their beats and their end. standfast_beat is in the beats file.

-- name: register
-- takes: worker, supervisor, host, pid, queues, concurrency, started_at, lease, boot_at, boot_id
-- Make a worker known; repeated, it changes nothing.
INSERT INTO standfast_worker
    (id, supervisor, host, pid, queues, concurrency, started_at, lease, boot_at, boot_id)
VALUES (:worker, :supervisor, :host, :pid, :queues, :concurrency, :started_at, :lease, :boot_at, :boot_id)
ON CONFLICT (id) DO NOTHING;

-- name: beat
-- takes: worker, beat_at, boot_id, polled_at, vitals
-- Renew a lease, unless the worker is condemned; without news of a poll or of how it is (NULL) the last stays known.
INSERT INTO standfast_beat (worker, beat_at, boot_id, polled_at, vitals)
VALUES (:worker, :beat_at, :boot_id, :polled_at, :vitals)
ON CONFLICT (worker) DO UPDATE
SET beat_at = excluded.beat_at, boot_id = excluded.boot_id,
    polled_at = coalesce(excluded.polled_at, standfast_beat.polled_at),
    vitals = coalesce(excluded.vitals, standfast_beat.vitals)
WHERE condemned = 0;

-- name: forget_dead_beats
-- Forget the beats of workers that are buried or were never registered.
DELETE FROM standfast_beat WHERE worker NOT IN (SELECT id FROM standfast_worker WHERE buried_at IS NULL);

-- name: leases
-- Every registered worker with its last sign of life.
SELECT worker.id, worker.lease, coalesce(beat.beat_at, worker.boot_at), coalesce(beat.boot_id, worker.boot_id),
    coalesce(beat.condemned, 0), worker.queues, beat.polled_at
FROM standfast_worker AS worker LEFT JOIN standfast_beat AS beat ON beat.worker = worker.id
WHERE worker.buried_at IS NULL ORDER BY worker.seq;

-- name: condemn
-- takes: worker, beat_at, boot_id
-- Mark a worker dead for ever.
INSERT INTO standfast_beat (worker, beat_at, boot_id, condemned) VALUES (:worker, :beat_at, :boot_id, 1)
ON CONFLICT (worker) DO UPDATE SET condemned = 1;

-- name: is_condemned
-- takes: worker
-- Tell whether a worker bears the mark.
SELECT count(*) FROM standfast_beat WHERE worker = :worker AND condemned = 1;

-- name: unregister
-- takes: worker, now
-- Remove a worker: from here on it can neither claim nor beat.
UPDATE standfast_worker SET buried_at = :now WHERE id = :worker AND buried_at IS NULL;

-- name: forget_buried
-- takes: long_ago
-- Forget who was buried before that: nothing of theirs can still be under way.
DELETE FROM standfast_worker WHERE buried_at < :long_ago;

-- name: claims_of_many
-- takes: workers
-- The claims of the workers (JSON) as a beat needs them.
SELECT job.worker, job.id, job.fence, job.call, job.cancel_requested, job.replaced
FROM json_each(:workers) AS asked
CROSS JOIN standfast_job AS job ON job.worker = asked.value AND job.state IN {claimed}
ORDER BY job.seq;

-- name: unknown_tasks
-- What waits for a worker that knows it. Jumps from one to the next in the index as `piles` does.
WITH RECURSIVE unknown (seq) AS (
    SELECT (
        SELECT seq FROM standfast_job WHERE state = {blocked} AND reason = {no_worker}
        ORDER BY task, version LIMIT 1
    )
    UNION
    SELECT (
        SELECT next.seq FROM standfast_job AS next
        WHERE next.state = {blocked} AND next.reason = {no_worker}
            AND (next.task, next.version, next.queue) > (+job.task, +job.version, x'FFFFFFFFFFFFFFFF')
        ORDER BY next.task, next.version LIMIT 1
    )
    FROM unknown CROSS JOIN standfast_job AS job ON job.seq = unknown.seq
)
SELECT job.task, job.version FROM unknown CROSS JOIN standfast_job AS job ON job.seq = unknown.seq;

-- name: due_suspects
-- takes: now
-- How many suspects of each group are due and unclaimed in queues that are not paused.
SELECT queue, alone, count(*) FROM standfast_job WHERE alone > 0 AND state IN ({ready}, {scheduled}) AND run_at <= :now
    AND queue NOT IN (SELECT name FROM standfast_queue) GROUP BY queue, alone;
