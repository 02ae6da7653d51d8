-- uses: keys
-- Forget jobs that completed or were cancelled long ago.
--
-- ARGV: time, how long ago (micros), how many at most
-- Returns how many.

local age, limit = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Those that stayed for their key wait for their age from now on.
for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'kept', '-inf', micros(now), 'LIMIT', 0, limit)) do
    call('ZREM', prefix .. 'kept', id)
    call('ZADD', prefix .. 'ended', call('HGET', prefix .. 'life:' .. id, 'z') or 0, id)
end

local function forget(job)
    local id = job.id
    -- memos may be large, and large ones are freed later
    call('UNLINK', prefix .. 'job:' .. id, prefix .. 'life:' .. id, prefix .. 'done:' .. id, prefix .. 'memo:' .. id)
    count(job.state, job.queue, -1)
    for _, tag in ipairs(job.tags) do
        call('ZREM', prefix .. 'tag:' .. tag, job.id)
    end
    if job.key then
        call('ZREM', prefix .. 'keyed:' .. job.key, job.id)
        if call('GET', key_name(job.task, job.key)) == job.id then
            call('DEL', key_name(job.task, job.key))
        end
    end
end

local over = call('ZRANGEBYSCORE', prefix .. 'ended', '-inf', micros(now - age), 'LIMIT', 0, limit)
for _, id in ipairs(over) do
    local job = find_job(id)
    if job then
        forget(job)
    end
end
for _, list in ipairs({ 'ended', 'all', 'fading' }) do
    in_bites('ZREM', prefix .. list, over)
end
write_tally()
return #over
