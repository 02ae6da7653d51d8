-- uses: keys
-- Forget jobs that completed or were cancelled long ago.
--
-- ARGV: time, how long ago (micros), how many at most
-- Returns how many.

local limit = tonumber(ARGV[3])

-- Those that stayed for their key wait for their age from now on.
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'kept', '-inf', micros(now), 'LIMIT', 0, limit)) do
    call('ZREM', prefix .. 'kept', id)
    call('ZADD', prefix .. 'ended', call('HGET', prefix .. 'life:' .. id, 'z'), id)
end

local over = call('ZRANGEBYSCORE', prefix .. 'ended', '-inf', micros(now - tonumber(ARGV[2])), 'LIMIT', 0, limit)
for _, id in ipairs(over) do
    local job = find_job(id)
    count(job.state, job.queue, -1)
    for _, tag in ipairs(job.tags) do
        call('ZREM', prefix .. 'tag:' .. tag, id)
    end
    if job.key then
        call('ZREM', prefix .. 'keyed:' .. job.key, id)
        if call('GET', key_name(job.task, job.key)) == id then
            call('DEL', key_name(job.task, job.key))
        end
    end
    call('DEL', prefix .. 'job:' .. id, prefix .. 'life:' .. id, prefix .. 'done:' .. id)
end
for _, list in ipairs({ 'ended', 'all', 'fading' }) do
    in_bites('ZREM', prefix .. list, over)
end
write_tally()
return #over
