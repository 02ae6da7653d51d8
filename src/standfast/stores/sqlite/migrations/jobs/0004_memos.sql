-- Memos of jobs, signals among them (core.memo), and what a job says that it is doing.
--
-- standfast_job, besides what 0001 says of it:
--   reason             now also what a scheduled job waits for that has given its slot back
--   progress_note      as its handler said last; may be NULL
--
-- standfast_memo: one row per memo, as long as there is its job. Not WITHOUT ROWID: bodies may be large.
--   job, name          standfast_job.seq, and what the memo is called
--   fence, number      by which claim, and by which save of that claim it was written; 0 and 0 for a signal
--   body               what it says; not read here, but for whether it is empty: then a signal is taken

ALTER TABLE standfast_job ADD COLUMN progress_note TEXT;

CREATE TABLE standfast_memo (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job, name)
);
