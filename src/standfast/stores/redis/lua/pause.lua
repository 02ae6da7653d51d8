-- uses: base
-- ARGV: time, queue

local queue = ARGV[2]
local since = call('HGET', prefix .. 'paused', queue) or micros(now)
call('HDEL', prefix .. 'paused', queue) -- a full server accepts this, and with it the next one
call('HSET', prefix .. 'paused', queue, since)
