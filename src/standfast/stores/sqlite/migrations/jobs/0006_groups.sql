-- Suspects of a crash run in groups.
--
-- standfast_job.alone: 0; or it is a suspect, and this is its group (core.crash), with how many others at most it runs in
-- a process of their own. Before, it was 1 for each of them: they ran alone.

-- With queue, group and state in it, beats count those that are due without a look at any job.
DROP INDEX standfast_suspects;
CREATE INDEX standfast_suspects ON standfast_job (queue, alone, run_at, state)
    WHERE alone > 0 AND state IN ('ready', 'scheduled');
