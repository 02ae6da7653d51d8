-- uses: recording
-- ARGV: time, kind, how far ahead (micros), how many at most
-- Returns the time, and the records that are due by then, the longest due first: name, what is stored of it, one after
--   the other.

local until_at = micros(now + tonumber(ARGV[3]))
local names = call('ZRANGEBYSCORE', due_key(ARGV[2]), '-inf', until_at, 'LIMIT', 0, ARGV[4])
return { micros(now), records_of(ARGV[2], names) }
