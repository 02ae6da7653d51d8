-- What jobs write down for their own later attempts, what others send them, and in a few words what they are doing. New
-- tables alone, and no lock on those that are there: it waits for nobody and nobody waits for it, and a release that
-- knows only those goes on.
--
-- memo: a small named document of a job. See core.memo. It goes with its job.
--   id, name           whose it is, and what: a cursor, a step, a wait, a signal, a file
--   fence, number      by which save of which claim it was written; 0 for a signal, which anyone may send
--   body               what it says. Nobody here reads it, but for whether that of a signal is empty: then it is taken
--
-- A job that has given its slot back, and waits for a time or a signal, is a row of waiting as any other that waits for
-- its time. `reason` there says for what, which before was said of blocked jobs only.
--
-- note: what the handler of a claim said last that it is doing. It belongs to the progress of that claim, which is in
-- claim and then in outcome, and is in a table of its own so that those did not have to be changed.
--   id, fence          the claim: one of another fence is over, and means nothing
--
-- Both are made two megabytes large, as the tables of the first migration are, and for the same reason.

CREATE TABLE standfast.memo (
    id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    fence integer NOT NULL,
    number bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (id, name)
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.memo (id, name, fence, number, body)
SELECT gen_random_uuid(), '', 0, 0, decode(repeat('00', 700), 'hex') FROM generate_series(1, 256);
DELETE FROM standfast.memo;
ALTER TABLE standfast.memo RESET (fillfactor);

CREATE TABLE standfast.note (
    id uuid PRIMARY KEY,
    fence integer NOT NULL,
    note text NOT NULL
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.note (id, fence, note)
SELECT gen_random_uuid(), 0, repeat('-', 700) FROM generate_series(1, 256);
DELETE FROM standfast.note;
ALTER TABLE standfast.note RESET (fillfactor);
