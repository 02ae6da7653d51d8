-- uses: done
-- ARGV: time, how many at most. Forgets results whose time is over; returns how many.

local limit = ARGV[2]
local over = call('ZRANGEBYSCORE', prefix .. 'fading', '-inf', micros(now), 'LIMIT', 0, limit)
in_bites('ZREM', prefix .. 'fading', over) -- a full server accepts this, and with it what follows
for _, id in ipairs(over) do
    local done = call('GET', prefix .. 'done:' .. id)
    if done then
        call('SET', prefix .. 'done:' .. id, without_result(done))
    else
        call('HDEL', prefix .. 'life:' .. id, 'v')
    end
end
return #over
