-- uses: lanes
-- What doctor wants to know besides the workers. Writes nothing.
--
-- Returns now, the latest time that was written down as past, and of each queue with due jobs that nobody has claimed:
-- its name, how many, since when the oldest is due, since when the queue is paused (or ''); then how many jobs there are
-- of each task that workers did not know, and how many are dead.

local latest = 0
local newest = call('ZRANGE', prefix .. 'all', -1, -1)[1]
if newest then
    latest = tonumber(call('GETRANGE', prefix .. 'job:' .. newest, 15, 30)) or 0
end

local answer = {}
for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
    local due, oldest = 0, math.huge
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local _, _, unknown_version = lane_parts(lane)
        local key = lane_key(queue, lane)
        local first = not unknown_version and call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
        if first and tonumber(first) <= now then
            due = due + call('ZCOUNT', key, '-inf', micros(now))
            oldest = math.min(oldest, tonumber(first))
        end
    end
    if due > 0 then
        local paused = call('HGET', prefix .. 'paused', queue)
        answer[#answer + 1] = { queue, due, micros(oldest), paused or '' }
    end
end
for _, paused in ipairs(call('HVALS', prefix .. 'paused')) do
    latest = math.max(latest, tonumber(paused))
end
return { micros(now), micros(latest), answer, call('HGETALL', prefix .. 'unknown'), call('ZCARD', prefix .. 'dead') }
