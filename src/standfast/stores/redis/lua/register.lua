-- uses: peers
-- Make a worker known. Who is known stays as it is, and who is buried stays so.
--
-- ARGV: time, worker, lease (micros), how long the buried are remembered (micros), what it says of itself,
--   the format of this release, the name of those that serve the same queues

local worker, lease, buried_kept, said = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local format, group = ARGV[6], ARGV[7]
call('ZREMRANGEBYSCORE', prefix .. 'buried', '-inf', '(' .. micros(now - buried_kept))
if call('ZSCORE', prefix .. 'buried', worker) or call('HEXISTS', prefix .. 'workers', worker) == 1 then
    return
end
for _, known in ipairs(call('HKEYS', prefix .. 'vitals')) do
    if call('HEXISTS', prefix .. 'workers', known) == 0 then -- an older release buried it, and left that
        call('HDEL', prefix .. 'vitals', known)
    end
end
local registration = cmsgpack.pack(call('INCR', prefix .. 'hires'), now, lease, said, group)
call('HSET', prefix .. 'workers', worker, registration)
call('ZADD', prefix .. 'leases', now + lease, worker)
join(worker, group)
if (tonumber(call('GET', prefix .. 'format')) or 0) < tonumber(format) then -- a newer release may have raised it
    call('SET', prefix .. 'format', format)
end
