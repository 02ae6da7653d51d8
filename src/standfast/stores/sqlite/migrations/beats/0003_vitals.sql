-- How workers are: so that people can see it.
--
-- standfast_beat, besides what 0001 and 0002 say of it:
--   vitals       how it was, as its last beat with such news told (JSON, core.vitals); NULL: no news. Nobody here reads it

ALTER TABLE standfast_beat ADD COLUMN vitals TEXT;
