-- uses: recording
-- ARGV: time, kind, where to go on, how many to look at
-- Returns where to go on, 0 at the end, and records, of which one may come twice: name, what is stored of it, one after
--   the other.

local kind, place, stretch = ARGV[2], ARGV[3], ARGV[4]
return call('HSCAN', records_key(kind), place, 'COUNT', stretch)
