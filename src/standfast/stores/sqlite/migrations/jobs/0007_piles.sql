-- Many jobs that wait for a worker which knows their task are taken up by an index, in the order in which they go.

DROP INDEX standfast_blocked;
CREATE INDEX standfast_blocked ON standfast_job (reason, task, version, queue, alone, priority, run_at)
    WHERE state = 'blocked';
