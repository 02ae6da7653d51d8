-- Suspects of a crash run in groups. A new table alone, and no lock on those that are there: it waits for nobody and
-- nobody waits for it, and a release that knows only those goes on, with each suspect alone.
--
-- suspect: with how many others at most a suspect may run in a process of their own. It goes with its job.
--   id                 of a job that is marked as a suspect (alone) in waiting, claim or outcome; of another one, a row
--                      means nothing
--   size               its group (core.crash). A suspect without a row runs alone
--
-- Two megabytes large from the beginning, as the tables of the first migration are, and for the same reason.

CREATE TABLE standfast.suspect (
    id uuid PRIMARY KEY,
    size integer NOT NULL
) WITH (fillfactor = 10, vacuum_truncate = false);
INSERT INTO standfast.suspect (id, size) SELECT gen_random_uuid(), 1 FROM generate_series(1, 5000);
DELETE FROM standfast.suspect;
ALTER TABLE standfast.suspect RESET (fillfactor);
