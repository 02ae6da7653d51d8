-- What makes looking cheap where there are many finished jobs.
--
-- standfast_size: one row per queue that ever had a job. Written by each enqueue and each forgetting, and by no claim and
-- no end of a job: how many are completed is this number without all others, which have small indexes.
--   queue, jobs        how many jobs the queue has, in whatever state

CREATE TABLE standfast_size (
    queue TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO standfast_size (queue, jobs) SELECT queue, count(*) FROM standfast_job GROUP BY queue;

-- With queue and state in them they can be counted without a look at any job.
DROP INDEX standfast_dead;
CREATE INDEX standfast_dead ON standfast_job (id, queue, state) WHERE state = 'dead';
CREATE INDEX standfast_cancelled ON standfast_job (id, queue, state) WHERE state = 'cancelled';
