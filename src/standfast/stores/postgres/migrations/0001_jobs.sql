-- Everything lives in one schema of its own: `standfast`, or the name that the URL gives, with _<namespace> behind it in
-- a namespace. Its name is put in while this file is loaded, wherever the file says `standfast` with a dot behind it.
--
-- A job's row never changes. What does change, where the job is in its life, is a row in exactly one of four tables,
-- which is inserted and deleted and not updated: so the hot tables stay small and nothing is rewritten in place.
--
--     fresh ------+                       +--> outcome
--                 +--> claim (in hand) ---+
--     waiting ----+                       +--> waiting
--
-- What is written here is sent along, and a database may have any encoding: so there is nothing but ASCII.
--
-- The tables job, fresh, waiting and claim are made two megabytes large, and do not shrink below that: so a planner that
-- finds them empty looks rows up in an index all the same, and a plan that it keeps is still right when they are full.
--
-- Times are microseconds since 1970 UTC. `now` is the server's clock_timestamp(), never a caller's. Names are compared
-- byte by byte (COLLATE "C"): that is their order in every store, and it is quick.
--
-- Jobs that are over go by DELETE, in the order of their ids (UUIDv7, so of time): that leaves whole pages free for new
-- ones. No table is partitioned by id to drop a range of jobs at once. A dead or unfinished one in it has to stay, and
-- can be moved only under a lock that every call would wait for; a range that is being detached while somebody's report
-- goes on cannot have rows at all; and with ten ranges every finish and every look costs more, always.
--
-- job: what was asked for.
--   id, task, version, queue, priority, payload, max_attempts, created_at, key, keep_key, start_by, on_late, metadata
--                      as in core.job.NewJob; metadata is a JSON object of strings, NULL for none
--   run_at             when it was first to run; the row in fresh, waiting, claim or outcome has the present one
--   tags               array, NULL for none
--   seq                order of arrival. It is the job's for ever: whoever lets it wait again says it again
--   xid                the transaction that inserted it. With queue, priority and seq it finds the row in fresh, which so
--                      needs no index by id
--
-- fresh: due on arrival and never claimed yet. What most jobs are, so it is as narrow as can be.
--   queue, priority, xid, seq, run_at   as in job; run_at is the time of its arrival
-- Claims walk each pair of queue and priority in the order (xid, seq) from a mark, so that the dead entries of what was
-- claimed before are not walked again. A mark never passes pg_snapshot_xmin(pg_current_snapshot()): nothing that was in
-- flight then can be behind it.
-- A job without a row in waiting, claim or outcome is fresh: nobody needs to look here for a job by its id.
--
-- waiting: every other job that nobody has in hand: for its time, for another try, or for something else.
--   seq, run_at, fence, attempt, crashes, alone, error   as in claim
--   blocked            true: it waits not for its time but for `reason`
--   until_at           not used
--   task, version      as in job, for those who adopt what nobody knew
--   after              blocked(replacing) only: the claimed job whose place it takes
--
-- claim: a job in a worker's hands.
--   fence              +1 at every claim of the job, never reset
--   worker, call       whose it is, and by which of that worker's claim calls
--   running            false: held; true: marked as running
--   attempt, crashes   how often it was charged, and how often a process died under it
--   alone              a suspect of a crash, which runs in a process of its own: with how many others says 0005_suspects.sql
--   error              its last failure in one line
--   cancel_requested   somebody asked to cancel it meanwhile
--   replaced           another job has taken its key, and is blocked(replacing) after it
--   started_at         when it started, as its worker says
--   progress_done, progress_total   as its handler said last
-- The file has 256 empty pages from the beginning, and never gives a page back. A planner judges by pages: so it always
-- finds it cheaper to look up a claim by its index than to walk the table, and a plan made in a quiet hour is still the
-- right one in a storm.
--
-- outcome: the end of a job. A dead one that is requeued loses this row.
--   state, reason      completed, dead or cancelled, and why
--   fence, worker      of the last claim; NULL worker where it was never claimed, or given back before
--   cancel_requested   as it was when it ended
--   result, result_until   what it returned, and until when anyone sees it (NULL: as long as the job)
--
-- attempt: how a claim ended. A plain completion has no row: outcome says all of it.
--   fence, worker, started_at, ended_at, how, error, traceback, log   as in core.job.Attempt
--   ended_by           'finish', 'reconcile' or 'burial'; a repeated finish is accepted after 'finish' only
--
-- fading: one row per result that is kept for a time, until a sweep forgets it.
-- tag: one row per tag of a job.
-- key: which job was last accepted with a key of a task. Whether the key is taken is read from where that job is.
-- level: every pair of queue and priority that jobs have or had lately. Claims visit these; enqueuers see to it that they exist.
--   A pair may be there twice, from two who were the first with it: a unique index would let one wait for the other's
--   commit, which may be a user's, and long.
--   xid                the transaction that inserted it: only what another one inserted is known to be committed. Or a
--                      mark, see levels.sql
-- queue: one row per paused queue.
-- tally: how many jobs of a queue have ended in a state, as deltas that are appended and now and then folded into one.
-- worker: the living. A beat changes beat_at and nothing else, so that it does not wait for claims, which hold their
--   worker's row FOR KEY SHARE; a burial deletes the row, and so waits for claims under way.
--   queues             array, NULL for all
-- buried: who was buried lately, so that a late registration cannot bring them back.
-- schema_version: one row: the number of the last migration applied, and the oldest release number that can work with it.

CREATE SEQUENCE standfast.arrival CACHE 1;

CREATE TABLE standfast.job (
    id uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    run_at bigint NOT NULL,
    max_attempts integer NOT NULL,
    created_at bigint NOT NULL,
    payload bytea NOT NULL,
    key text COLLATE "C",
    keep_key bigint NOT NULL DEFAULT 0,
    start_by bigint,
    on_late text,
    tags text[],
    metadata text,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint NOT NULL DEFAULT nextval('standfast.arrival'),
    PRIMARY KEY (id)
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.job (id, task, version, queue, priority, run_at, max_attempts, created_at, payload, seq)
SELECT gen_random_uuid(), repeat('-', 700), 0, '', 0, 0, 0, 0, '', 0 FROM generate_series(1, 256);
DELETE FROM standfast.job;
ALTER TABLE standfast.job RESET (fillfactor);
CREATE INDEX job_key ON standfast.job (key, id) WHERE key IS NOT NULL;

CREATE TABLE standfast.fresh (
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    xid xid8 NOT NULL,
    seq bigint NOT NULL,
    run_at bigint NOT NULL,
    id uuid NOT NULL
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.fresh (queue, priority, xid, seq, run_at, id)
SELECT repeat('-', 700), 0, '0', 0, 0, gen_random_uuid() FROM generate_series(1, 256);
DELETE FROM standfast.fresh;
ALTER TABLE standfast.fresh RESET (fillfactor);
CREATE INDEX fresh_order ON standfast.fresh (queue, priority, xid, seq);

CREATE TABLE standfast.waiting (
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    run_at bigint NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    fence integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    alone boolean NOT NULL DEFAULT false,
    blocked boolean NOT NULL DEFAULT false,
    reason text,
    until_at bigint,
    after uuid,
    error text
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.waiting (queue, priority, run_at, seq, id, task, version, error)
SELECT '', 0, 0, 0, gen_random_uuid(), '', 0, repeat('-', 700) FROM generate_series(1, 256);
DELETE FROM standfast.waiting;
ALTER TABLE standfast.waiting RESET (fillfactor);
CREATE UNIQUE INDEX waiting_id ON standfast.waiting (id);
CREATE INDEX waiting_order ON standfast.waiting (queue, alone, priority, run_at, seq) WHERE NOT blocked;
CREATE INDEX waiting_time ON standfast.waiting (run_at, priority DESC, seq) WHERE NOT blocked AND NOT alone;
CREATE INDEX waiting_blocked ON standfast.waiting (reason, task, version) WHERE blocked;
CREATE INDEX waiting_after ON standfast.waiting (after) WHERE after IS NOT NULL;

CREATE TABLE standfast.claim (
    id uuid NOT NULL,
    fence integer NOT NULL,
    worker text COLLATE "C" NOT NULL,
    call bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    run_at bigint NOT NULL,
    seq bigint NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    alone boolean NOT NULL DEFAULT false,
    running boolean NOT NULL DEFAULT false,
    cancel_requested boolean NOT NULL DEFAULT false,
    replaced boolean NOT NULL DEFAULT false,
    started_at bigint,
    progress_done double precision,
    progress_total double precision,
    error text
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.claim (id, fence, worker, call, queue, priority, run_at, seq, error)
SELECT gen_random_uuid(), 0, '', 0, '', 0, 0, 0, repeat('-', 700) FROM generate_series(1, 256);
DELETE FROM standfast.claim;
ALTER TABLE standfast.claim RESET (fillfactor);
CREATE UNIQUE INDEX claim_id ON standfast.claim (id);

CREATE TABLE standfast.outcome (
    id uuid NOT NULL,
    state text NOT NULL,
    reason text,
    queue text COLLATE "C" NOT NULL,
    fence integer NOT NULL,
    worker text COLLATE "C",
    run_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint NOT NULL,
    attempt integer NOT NULL,
    crashes integer NOT NULL,
    alone boolean NOT NULL,
    cancel_requested boolean NOT NULL,
    error text,
    progress_done double precision,
    progress_total double precision,
    result bytea,
    result_until bigint,
    PRIMARY KEY (id)
);
CREATE INDEX outcome_dead ON standfast.outcome (id) WHERE state = 'dead';
CREATE INDEX outcome_cancelled ON standfast.outcome (id) WHERE state = 'cancelled';

CREATE TABLE standfast.attempt (
    id uuid NOT NULL,
    fence integer NOT NULL,
    worker text COLLATE "C" NOT NULL,
    started_at bigint,
    ended_at bigint NOT NULL,
    how text NOT NULL,
    error text,
    traceback text,
    log text,
    ended_by text NOT NULL,
    PRIMARY KEY (id, fence)
);

CREATE TABLE standfast.tag (
    tag text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (tag, id)
);

CREATE TABLE standfast.fading (
    until_at bigint NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (until_at, id)
);

CREATE TABLE standfast.key (
    task text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    id uuid,
    PRIMARY KEY (task, key)
);

CREATE TABLE standfast.level (
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX level_order ON standfast.level (queue, priority);

CREATE TABLE standfast.queue (
    name text COLLATE "C" PRIMARY KEY,
    paused_at bigint NOT NULL
);

CREATE TABLE standfast.tally (
    queue text COLLATE "C" NOT NULL,
    state text NOT NULL,
    jobs bigint NOT NULL
);

CREATE TABLE standfast.worker (
    id text COLLATE "C" PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    supervisor text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text[],
    concurrency integer NOT NULL,
    started_at bigint NOT NULL,
    lease bigint NOT NULL,
    beat_at bigint NOT NULL,
    condemned boolean NOT NULL DEFAULT false
);

CREATE TABLE standfast.buried (
    id text COLLATE "C" PRIMARY KEY,
    buried_at bigint NOT NULL
);

-- The time: as given, or else the server's own in microseconds since 1970.
CREATE FUNCTION standfast.present(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;
