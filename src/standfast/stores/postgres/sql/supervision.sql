-- Workers: their registration, their beats and their end; and what is swept now and then. supervise.py
-- argues why these do no harm to each other.

-- name: forget_buried
-- takes: now bigint, kept bigint
-- Forget who was buried longer ago than is kept: nothing of theirs can still be under way.
DELETE FROM standfast.buried WHERE buried_at < standfast.present(:now) - :kept;

-- name: forget_polls
-- Forget when those looked for work who are not registered any more.
DELETE FROM standfast.poll WHERE worker = ANY (ARRAY(
    SELECT poll.worker FROM standfast.poll AS poll
    WHERE NOT EXISTS (SELECT FROM standfast.worker AS worker WHERE worker.id = poll.worker) FOR UPDATE SKIP LOCKED
));

-- name: forget_vitals
-- Forget how those were who are not registered any more.
DELETE FROM standfast.vitals WHERE worker = ANY (ARRAY(
    SELECT vitals.worker FROM standfast.vitals AS vitals
    WHERE NOT EXISTS (SELECT FROM standfast.worker AS worker WHERE worker.id = vitals.worker) FOR UPDATE SKIP LOCKED
));

-- name: register
-- takes: now bigint, worker text, supervisor text, host text, pid integer
-- takes: queues text[], concurrency integer, lease bigint
-- Make a worker known; repeated, it changes nothing.
WITH {moment}
INSERT INTO standfast.worker (id, supervisor, host, pid, queues, concurrency, started_at, lease, beat_at)
SELECT :worker, :supervisor, :host, :pid, :queues, :concurrency, now, :lease, now FROM moment
ON CONFLICT (id) DO NOTHING;

-- name: refuse_buried
-- takes: worker text
-- Undo the registration of a worker that is buried.
DELETE FROM standfast.worker WHERE id = :worker AND EXISTS (SELECT FROM standfast.buried WHERE buried.id = :worker);

-- name: beat
-- takes: now bigint, workers text[]
-- Renew leases, unless their workers are condemned. Tells which were renewed.
WITH {moment}, alive AS (
    SELECT id FROM standfast.worker WHERE id = ANY (:workers) AND NOT condemned ORDER BY id FOR NO KEY UPDATE
)
UPDATE standfast.worker AS worker SET beat_at = (SELECT now FROM moment)
FROM alive WHERE worker.id = alive.id AND NOT worker.condemned
RETURNING worker.id;

-- name: note_polls
-- takes: workers text[], times bigint[]
-- Note when workers looked for work without being called, as far as their beats were accepted before this.
INSERT INTO standfast.poll (worker, polled_at)
SELECT worker.id, told.polled_at FROM unnest(:workers, :times) AS told (worker, polled_at)
JOIN standfast.worker AS worker ON worker.id = told.worker AND NOT worker.condemned
ORDER BY worker.id
ON CONFLICT (worker) DO UPDATE SET polled_at = excluded.polled_at;

-- name: note_vitals
-- takes: workers text[], told text[]
-- Note how workers are, as far as their beats were accepted before this.
INSERT INTO standfast.vitals (worker, told)
SELECT worker.id, news.told FROM unnest(:workers, :told) AS news (worker, told)
JOIN standfast.worker AS worker ON worker.id = news.worker AND NOT worker.condemned
ORDER BY worker.id
ON CONFLICT (worker) DO UPDATE SET told = excluded.told;

-- name: mend_leases
-- takes: now bigint
-- Let beats that seem to come from the future count as of now: the clock was set back, and no lease may last as
-- long as that step. Rows that are locked are being renewed anyway.
WITH {moment}, ahead AS (
    SELECT id FROM standfast.worker WHERE beat_at > (SELECT now FROM moment) + 1000000 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE standfast.worker AS worker SET beat_at = (SELECT now FROM moment) FROM ahead WHERE worker.id = ahead.id;

-- name: leases
-- takes: now bigint
-- Every registered worker with its last sign of life, its queues and when it last looked for work, and before each
-- the time; without any worker, the time alone.
WITH {moment}
SELECT moment.now, worker.id, worker.lease, worker.beat_at, worker.condemned, worker.queues, poll.polled_at
FROM moment LEFT JOIN standfast.worker AS worker ON true LEFT JOIN standfast.poll AS poll ON poll.worker = worker.id
ORDER BY worker.seq;

-- name: claims_of_many
-- takes: workers text[]
-- The claims of workers as a beat needs them.
SELECT claim.worker, claim.id::text, claim.fence, claim.call, claim.cancel_requested, claim.replaced
FROM standfast.claim AS claim WHERE claim.worker = ANY (:workers) ORDER BY claim.seq;

-- name: paused_now
-- The paused queues.
SELECT name FROM standfast.queue;

-- name: unknown_tasks
-- What waits for a worker that knows it. Jumps from one to the next in the index instead of walking the jobs.
WITH RECURSIVE unknown AS (
    (
        SELECT task, version FROM standfast.waiting WHERE blocked AND reason = {no_worker}
        ORDER BY task, version LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.version FROM unknown CROSS JOIN LATERAL (
        SELECT waiting.task, waiting.version FROM standfast.waiting AS waiting
        WHERE waiting.blocked AND waiting.reason = {no_worker}
            AND (waiting.task, waiting.version) > (unknown.task, unknown.version)
        ORDER BY waiting.task, waiting.version LIMIT 1
    ) AS next
)
SELECT task, version FROM unknown;

-- name: due_suspects
-- takes: now bigint
-- How many suspects of each group are due and unclaimed in queues that are not paused.
WITH {moment}
SELECT queue, {group} AS of_group, count(*) FROM standfast.waiting AS waiting
WHERE alone AND NOT blocked AND run_at <= (SELECT now FROM moment) AND queue NOT IN (SELECT name FROM standfast.queue)
GROUP BY queue, of_group;

-- name: condemn
-- takes: now bigint, workers text[]
-- Mark those of the listed workers dead for ever whose lease has run out, or who are marked already. Tells which.
WITH {moment}, over AS (
    SELECT id FROM standfast.worker
    WHERE id = ANY (:workers) AND (condemned OR (SELECT now FROM moment) - beat_at > lease)
    ORDER BY id FOR NO KEY UPDATE
)
UPDATE standfast.worker AS worker SET condemned = true
FROM over
WHERE worker.id = over.id AND (worker.condemned OR (SELECT now FROM moment) - worker.beat_at > worker.lease)
RETURNING worker.id;

-- name: unregister
-- takes: now bigint, worker text, must_be_condemned boolean
-- Remove a worker, if need be only a condemned one: from here on it can neither claim nor beat. Waits for claims
-- under way. Tells the time, if there was such a worker.
WITH {moment}, gone AS (
    DELETE FROM standfast.worker WHERE id = :worker AND (condemned OR NOT :must_be_condemned) RETURNING id
), remembered AS (
    INSERT INTO standfast.buried (id, buried_at) SELECT gone.id, moment.now FROM gone, moment
)
SELECT moment.now FROM gone, moment;

-- name: sweep_results
-- takes: now bigint, limit bigint
-- Forget results whose time is over, oldest first; until when they were kept stays known. Two who sweep at
-- once take different ones.
WITH {moment}, over AS (
    SELECT until_at, id FROM standfast.fading WHERE until_at <= (SELECT now FROM moment)
    ORDER BY until_at LIMIT :limit FOR UPDATE SKIP LOCKED
), faded AS (
    DELETE FROM standfast.fading AS fading USING over
    WHERE fading.until_at = over.until_at AND fading.id = over.id RETURNING fading.id
)
UPDATE standfast.outcome SET result = NULL
WHERE id = ANY (ARRAY(SELECT id FROM faded)) AND result IS NOT NULL;

-- name: fold_tally
-- takes: most bigint
-- Fold the counters into one row for each queue and state, once there are too many. Two who fold at once take
-- different rows; nobody waits, and the sums are the same before, between and after.
WITH many AS (
    SELECT count(*) > :most AS they_are FROM (SELECT FROM standfast.tally LIMIT :most + 1) AS first_ones
), folded AS (
    DELETE FROM standfast.tally WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM standfast.tally WHERE (SELECT they_are FROM many) FOR UPDATE SKIP LOCKED
    )) RETURNING queue, state, jobs
)
INSERT INTO standfast.tally (queue, state, jobs)
SELECT queue, state, sum(jobs) FROM folded GROUP BY queue, state HAVING sum(jobs) <> 0;
