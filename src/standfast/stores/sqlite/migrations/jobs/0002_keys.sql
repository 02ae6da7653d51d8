-- Keys, replacing, late starts, tags and metadata, results that are kept for a time, and what attempts logged.
--
-- standfast_job, besides what 0001 says of it:
--   key                unique among the unfinished jobs of its task, and for keep_key after a completion; may be NULL
--   keep_key           microseconds that a completed job keeps its key
--   after              blocked(replacing) only: the id of the claimed job whose place it takes. Not the reason but this
--                      column tells such a job: a handler may block its own job in the same words
--   replaced           1: another job has taken its key while it was claimed. As long as it stays claimed, the job that
--                      has its key is blocked(replacing) after it; so an end without this mark has nobody to set free
--   start_by           the first start should come by this time; NULL without such a limit
--   on_late            'run' or 'expire': what a worker does with it after start_by; NULL where start_by is
--   tags               JSON array of strings; NULL for none
--   metadata           JSON object of strings; NULL for none
--   result_until       from this time on nobody sees the result, and a sweep forgets it; NULL: kept as long as the job
--
-- standfast_attempt, besides what 0001 says of it. A completion that carries a log gets a row too.
--   log                the end of what the attempt logged
--
-- standfast_key: one row per task and key that was ever used.
--   task, key
--   job                the id of the job that was last accepted with it. Whether the key is *taken* is read in that
--                      job's row (state, finished_at, keep_key), so the end of a job writes nothing here
--
-- standfast_tag: one row per tag of a job, so that the jobs of a tag are a walk, newest first.
--   tag, job           a tag, and the id of a job that has it
--
-- standfast_fading: one row per result that is kept for a time, until it is forgotten. A table and not an index: plain
-- completions do not touch it.
--   until_at, job      the job's result_until, and its id

ALTER TABLE standfast_job ADD COLUMN key TEXT;
ALTER TABLE standfast_job ADD COLUMN keep_key INTEGER NOT NULL DEFAULT 0;
ALTER TABLE standfast_job ADD COLUMN after TEXT;
ALTER TABLE standfast_job ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE standfast_job ADD COLUMN start_by INTEGER;
ALTER TABLE standfast_job ADD COLUMN on_late TEXT;
ALTER TABLE standfast_job ADD COLUMN tags TEXT;
ALTER TABLE standfast_job ADD COLUMN metadata TEXT;
ALTER TABLE standfast_job ADD COLUMN result_until INTEGER;

ALTER TABLE standfast_attempt ADD COLUMN log TEXT;

CREATE TABLE standfast_key (
    task TEXT NOT NULL,
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (task, key)
) WITHOUT ROWID;

CREATE TABLE standfast_tag (
    tag TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (tag, job)
) WITHOUT ROWID;

CREATE TABLE standfast_fading (
    until_at INTEGER NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (until_at, job)
) WITHOUT ROWID;

CREATE INDEX standfast_keyed ON standfast_job (key, id) WHERE key IS NOT NULL;
