-- uses: recording
-- ARGV: time, kind, how far ahead (micros), how many at most
-- Returns the time, and the records that are due by then, the longest due first: name, what is stored of it, one after
--   the other.

local kind, ahead, limit = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local names = call('ZRANGEBYSCORE', due_key(kind), '-inf', micros(now + ahead), 'LIMIT', 0, limit)
return { micros(now), records_of(kind, names) }
