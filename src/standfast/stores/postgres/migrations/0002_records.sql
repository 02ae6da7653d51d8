-- Schedules and their like, what became of each fire, and who looked for work when. New tables alone, and no lock on
-- those that are there: it waits for nobody and nobody waits for it, and a release that knows only those goes on.
--
-- record: small named documents that change by comparison of versions. See core.record.Record.
--   kind, name         what it is about, and its name among those of its kind
--   version            1 at first and +1 at each change
--   due_at             when somebody should look at it next; NULL for never
--   token              made by whoever wished the last change, so that a wish which is repeated is known as the same
--   body               what it says. Nobody here reads it
-- Who changes records locks them in the order of kind and name, and compares after that.
--
-- fire: what was decided about the planned times of a schedule. See core.record.Fire. Written with the change of its
-- record, under the lock of that, and overwritten by a later decision about the same time.
--   schedule           the name of a record of the kind schedule; with that record go its fires
--   planned, cause     which fire it is: its time, and whether the rule, a person or a backfill asked for it
--   decision           what was decided
--   count, until_at    of how many planned times in a row this is said, and the last of them if there are several
--   job_id             the job that came of it, which may be long forgotten
--   note               why, in words
--   decided_at         when that was
-- Of each schedule the latest 1000 are kept, and a few more until the next ones are forgotten.
--
-- poll: when a worker last looked for work without being called, as its beats have told. A table of its own, so that
-- that of the workers, which every beat needs, did not have to be changed.
--   worker             its id. A row outlives its worker until another one registers, and means nothing then
--   polled_at          by the store's time

CREATE TABLE standfast.record (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    due_at bigint,
    token text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX record_due ON standfast.record (due_at, name) WHERE due_at IS NOT NULL;

CREATE TABLE standfast.fire (
    schedule text COLLATE "C" NOT NULL,
    planned bigint NOT NULL,
    cause text COLLATE "C" NOT NULL,
    decision text NOT NULL,
    count bigint NOT NULL,
    until_at bigint,
    job_id text COLLATE "C",
    note text,
    decided_at bigint NOT NULL,
    PRIMARY KEY (schedule, planned, cause)
);
CREATE INDEX fire_time ON standfast.fire (planned, schedule, cause);

CREATE TABLE standfast.poll (
    worker text COLLATE "C" PRIMARY KEY,
    polled_at bigint NOT NULL
);
