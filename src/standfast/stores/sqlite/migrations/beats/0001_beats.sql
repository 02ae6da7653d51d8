-- The beats file: signs of life only, apart from the jobs so that a long write transaction there cannot starve
-- them. Opened in WAL mode with synchronous=NORMAL: what a power loss takes here belongs to another boot anyway.
--
-- standfast_schema: one row.
--   version      the number of the last migration applied to this file
--
-- standfast_beat: one row per worker that ever beat or was condemned; swept once the worker is buried.
--   worker       standfast_worker.id in the jobs file
--   beat_at      its last beat, in microseconds of the boot clock
--   boot_id      of which boot: a beat of another boot says nothing about now
--   condemned    1: its lease ran out and somebody marked it; never undone, every later beat is refused

CREATE TABLE standfast_schema (version INTEGER NOT NULL);
INSERT INTO standfast_schema (version) VALUES (0);

CREATE TABLE standfast_beat (
    worker TEXT PRIMARY KEY,
    beat_at INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    condemned INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
