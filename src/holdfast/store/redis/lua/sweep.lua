-- uses: done
-- ARGV: time, how many at most. Forgets results whose time is over; returns how many.

local over = call('ZRANGEBYSCORE', prefix .. 'fading', '-inf', micros(now), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(over) do
    local done = call('GET', prefix .. 'done:' .. id)
    if done then
        call('SET', prefix .. 'done:' .. id, without_result(done))
    else
        call('HDEL', prefix .. 'life:' .. id, 'v')
    end
    call('ZREM', prefix .. 'fading', id)
end
return #over
