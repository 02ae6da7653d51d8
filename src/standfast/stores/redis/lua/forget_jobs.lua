-- uses: keys
-- Forget jobs that completed or were cancelled long ago, or dead ones.
--
-- ARGV: time, which (ended, dead, surplus_dead), how long ago (micros; of surplus_dead: how many stay), how many at
--   most; of dead also the id after which to begin and how many to look at
-- Returns how many; of dead also the id after which to go on, empty after the last one, or where all behind it came so
--   lately that they cannot have died long ago.

local which, keep, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local go_on = ''

local function old_ended()
    -- Those that stayed for their key wait for their age from now on.
    for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. 'kept', '-inf', micros(now), 'LIMIT', 0, limit)) do
        call('ZREM', prefix .. 'kept', id)
        call('ZADD', prefix .. 'ended', call('HGET', prefix .. 'life:' .. id, 'z') or 0, id)
    end
    return call('ZRANGEBYSCORE', prefix .. 'ended', '-inf', micros(now - keep), 'LIMIT', 0, limit)
end

local function surplus_dead()
    local surplus = math.min(call('ZCARD', prefix .. 'dead') - keep, limit)
    return surplus > 0 and call('ZRANGE', prefix .. 'dead', 0, surplus - 1) or {}
end

local function old_dead()
    local start, stretch, over, job = ARGV[5], tonumber(ARGV[6]), {}, nil
    local ids = call('ZRANGEBYLEX', prefix .. 'dead', start == '' and '-' or '(' .. start, '+', 'LIMIT', 0, stretch)
    for _, id in ipairs(ids) do
        if #over == limit then
            go_on = start
            return over
        end
        job = find_job(id)
        if not job or (job.finished_at or now) <= now - keep then
            over[#over + 1] = id
        end
    end
    if #ids == stretch and (not job or job.created_at <= now - keep) then
        go_on = ids[#ids] or ''
    end
    return over
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

local over = which == 'ended' and old_ended() or which == 'dead' and old_dead() or surplus_dead()
for _, id in ipairs(over) do
    local job = find_job(id)
    if job then
        forget(job)
    end
end
for _, list in ipairs({ which == 'ended' and 'ended' or 'dead', 'all', 'fading' }) do
    in_bites('ZREM', prefix .. list, over)
end
write_tally()
return which == 'dead' and { #over, go_on } or #over
