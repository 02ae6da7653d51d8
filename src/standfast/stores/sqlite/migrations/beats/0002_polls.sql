-- When workers look for work without being called: so that they can take turns.
--
-- standfast_beat, besides what 0001 says of it:
--   polled_at    when it last did so, in microseconds since 1970 UTC, as its last beat with such news told; NULL: no news

ALTER TABLE standfast_beat ADD COLUMN polled_at INTEGER;
