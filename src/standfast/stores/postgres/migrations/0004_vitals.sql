-- How workers are: so that people can see it. A new table alone, and no lock on those that are there: it waits for nobody
-- and nobody waits for it, and a release that knows only those goes on.
--
-- vitals: how a worker was, as its last beat with such news told. A table of its own, so that that of the workers, which
-- every beat needs, did not have to be changed.
--   worker             its id. A row outlives its worker until another one registers, and means nothing then
--   told               what it said (JSON, core.vitals). Nobody here reads it

CREATE TABLE standfast.vitals (
    worker text COLLATE "C" PRIMARY KEY,
    told text NOT NULL
) WITH (fillfactor = 50);
