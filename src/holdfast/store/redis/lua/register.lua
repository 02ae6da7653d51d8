-- uses: base, peers
-- Make a worker known. Who is known stays as it is, and who is buried stays so.
--
-- ARGV: time, worker, lease (micros), how long the buried are remembered (micros), what it says of itself,
--   the format of this release, the name of those that serve the same queues

local worker, lease = ARGV[2], tonumber(ARGV[3])
call('ZREMRANGEBYSCORE', prefix .. 'buried', '-inf', '(' .. micros(now - tonumber(ARGV[4])))
if call('ZSCORE', prefix .. 'buried', worker) or call('HEXISTS', prefix .. 'workers', worker) == 1 then
    return
end
local registration = cmsgpack.pack(call('INCR', prefix .. 'hires'), now, lease, ARGV[5], ARGV[7])
call('HSET', prefix .. 'workers', worker, registration)
call('ZADD', prefix .. 'leases', now + lease, worker)
join(worker, ARGV[7])
call('SETNX', prefix .. 'format', ARGV[6])
