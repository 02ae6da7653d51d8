-- The jobs file: everything that must survive. Opened in WAL mode with synchronous=FULL.
--
-- Times are integer microseconds since 1970 UTC. States are the values of core.states.State. Object names carry
-- the prefix standfast_ (standfast_<namespace>_ in a namespace) and after it one word without an underscore, so
-- that the objects of two namespaces never meet.
--
-- standfast_schema: one row.
--   version            the number of the last migration applied to this file
--
-- standfast_job: one row per job, from its enqueueing to long after its end.
--   seq                order of arrival; the key by which other tables refer to the job
--   state              where it is in its life. 'scheduled' whose run_at has come counts as ready: a claim makes it so
--   queue, priority    where it waits; a higher priority goes first
--   run_at             not before this time
--   alone              the group of a suspect of a crash (core.crash), which runs in a process of that group's own
--   fence              +1 at every claim, never reset
--   worker, call       whose claim it is, and by which of that worker's claim calls; worker stays on final jobs
--   id                 made by the client; the idempotency key of its enqueueing
--   task, version      which handler, and the version of its payload
--   attempt, crashes   how often it was charged, and how often a process died under it
--   max_attempts       after so many charged attempts it is dead
--   cancel_requested   1: somebody asked to cancel it while it was claimed
--   reason             why it is blocked, or why it was cancelled
--   until_at           not used
--   created_at         when it was accepted
--   started_at         when the present claim started, or the one that completed it
--   finished_at        when it became final
--   error              the last failure in one line; a completion clears it
--   progress_done, progress_total   as its handler said last
--   payload, result    encoded arguments and encoded return value
--
-- standfast_attempt: how a claim ended. The completed claim has no row: the job's own row says all of it, and the
-- path of success stays one update. (A completion that carries a failure text does get one.)
--   job, fence         which claim: standfast_job.seq and the fence
--   worker             whose it was
--   started_at, ended_at, how, error, traceback   as in core.job.Attempt
--   ended_by           'finish', 'reconcile' or 'burial'; a repeated finish is accepted after 'finish' only
--
-- standfast_queue: one row per paused queue; an ordinary queue has none.
--   name, paused_at
--
-- standfast_worker: one row per registered worker. A buried one stays for a day, so that a registration which was
-- under way when it died cannot bring it back.
--   seq                order of registration
--   id                 the incarnation
--   supervisor, host, pid, queues (JSON array, NULL for all), concurrency, started_at   for people
--   lease              microseconds that its claims stay valid without a beat
--   buried_at          NULL while it lives
--   boot_at, boot_id   registration on the boot clock (microseconds) and of which boot: its age until its first beat

CREATE TABLE standfast_schema (version INTEGER NOT NULL);
INSERT INTO standfast_schema (version) VALUES (0);

CREATE TABLE standfast_job (
    seq INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    alone INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    call INTEGER,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    until_at INTEGER,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    error TEXT,
    progress_done REAL,
    progress_total REAL,
    payload BLOB NOT NULL,
    result BLOB
);

-- No condition compares a column for equality that a query compares with a parameter: SQLite would then plan that
-- query anew at each call, ten times slower. Hence `alone > 0`.
CREATE INDEX standfast_ready ON standfast_job (queue, alone, priority DESC, run_at) WHERE state = 'ready';
CREATE INDEX standfast_due ON standfast_job (run_at, queue, alone, fence) WHERE state = 'scheduled';
CREATE INDEX standfast_claims ON standfast_job (worker) WHERE state IN ('held', 'running');
CREATE INDEX standfast_blocked ON standfast_job (reason, task, version) WHERE state = 'blocked';
CREATE INDEX standfast_dead ON standfast_job (id) WHERE state = 'dead';
CREATE INDEX standfast_suspects ON standfast_job (run_at) WHERE alone > 0 AND state IN ('ready', 'scheduled');

CREATE TABLE standfast_attempt (
    job INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    worker TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    how TEXT NOT NULL,
    error TEXT,
    traceback TEXT,
    ended_by TEXT NOT NULL,
    PRIMARY KEY (job, fence)
) WITHOUT ROWID;

CREATE TABLE standfast_queue (
    name TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE standfast_worker (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    supervisor TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    queues TEXT,
    concurrency INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    buried_at INTEGER,
    boot_at INTEGER NOT NULL,
    boot_id TEXT NOT NULL
);
