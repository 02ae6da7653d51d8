-- What makes looking cheap where there are many finished jobs.
--
-- holdfast_size: one row per queue that ever had a job. Written by each enqueue and each forgetting, and by no claim and
-- no end of a job: how many are completed is this number without all others, which have small indexes.
--   queue, jobs        how many jobs the queue has, in whatever state

CREATE TABLE holdfast_size (
    queue TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO holdfast_size (queue, jobs) SELECT queue, count(*) FROM holdfast_job GROUP BY queue;

-- With queue and state in them they can be counted without a look at any job.
DROP INDEX holdfast_dead;
CREATE INDEX holdfast_dead ON holdfast_job (id, queue, state) WHERE state = 'dead';
CREATE INDEX holdfast_cancelled ON holdfast_job (id, queue, state) WHERE state = 'cancelled';
