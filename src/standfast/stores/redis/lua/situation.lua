-- uses: showing, lanes, members, showing_workers
-- All that is needed to say why a job is where it is.
--
-- ARGV: time, id
-- Returns nothing without such a job; else the time, the job and the workers as views show them, since when its
--   queue is paused (or nothing), and how many due jobs of its queue go first.

local job = find_job(ARGV[2])
if not job then
    return false
end

-- How many members of a lane are due before a job of the same priority.
local function first_of_equals(key)
    if job.run_at > now then
        return call('ZCOUNT', key, '-inf', micros(now))
    end
    local first = call('ZCOUNT', key, '-inf', '(' .. micros(job.run_at))
    for _, member in ipairs(call('ZRANGEBYSCORE', key, micros(job.run_at), micros(job.run_at))) do
        first = first + (string.sub(member, 1, ARRIVAL_DIGITS) < job.arrival and 1 or 0)
    end
    return first
end

local function ahead()
    local first = 0
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. job.queue)) do
        local _, priority, unknown_version = lane_parts(lane)
        local key = lane_key(job.queue, lane)
        if not unknown_version and priority > job.priority then
            first = first + call('ZCOUNT', key, '-inf', micros(now))
        elseif not unknown_version and priority == job.priority then
            first = first + first_of_equals(key)
        end
    end
    return first
end

local is_waiting = job.state == 'scheduled' or job.state == 'blocked'
local paused_at = call('HGET', prefix .. 'paused', job.queue)
return { micros(now), shown(job), shown_workers(), paused_at, is_waiting and ahead() or 0 }
