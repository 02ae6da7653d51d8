-- Records, which change by comparison of versions, and the fires of schedules (core.record).
--
-- standfast_record: one row per record.
--   kind, name         which record: a value of core.record.Kind, and a name that is unique in it
--   version            1 at first, +1 at each change: only who has seen this one may change it
--   token              of the change that made this version, so that its repetition is known again
--   due_at             when somebody should look at it next; NULL: never
--   body               what it says; not read here
--
-- standfast_fire: one row per planned time of a schedule about which something was decided, or for several in a row.
--   schedule           the name of its record
--   planned            for when it was planned
--   cause              a value of core.record.Cause; with schedule and planned it tells which fire this is
--   decision           a value of core.record.Decision
--   count              for how many planned times in a row this row stands
--   until_at           the last of them; NULL where there is one only
--   job                the id of the job that was enqueued for it; may be NULL. The job may be gone by now
--   note               a word about it for people; may be NULL
--   decided_at         when it was written last

CREATE TABLE standfast_record (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    token TEXT NOT NULL,
    due_at INTEGER,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Every beat asks for its first entry.
CREATE INDEX standfast_agenda ON standfast_record (due_at, kind, name) WHERE due_at IS NOT NULL;

CREATE TABLE standfast_fire (
    schedule TEXT NOT NULL,
    planned INTEGER NOT NULL,
    cause TEXT NOT NULL,
    decision TEXT NOT NULL,
    count INTEGER NOT NULL,
    until_at INTEGER,
    job TEXT,
    note TEXT,
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, planned, cause)
) WITHOUT ROWID;

CREATE INDEX standfast_planned ON standfast_fire (planned, schedule, cause);
