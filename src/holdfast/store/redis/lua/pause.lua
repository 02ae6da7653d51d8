-- uses: base
-- ARGV: time, queue

local since = call('HGET', prefix .. 'paused', ARGV[2]) or micros(now)
call('HDEL', prefix .. 'paused', ARGV[2]) -- a full server accepts this, and with it the next one
call('HSET', prefix .. 'paused', ARGV[2], since)
