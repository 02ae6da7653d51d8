-- uses: lanes
-- What doctor wants to know besides the workers. Writes nothing.
--
-- ARGV: time
-- Returns the time; the latest time that was written down as past (or nothing); of each queue with due jobs that
--   nobody has claimed its name, how many, since when the oldest is due and since when it is paused (or nothing);
--   <version>:<task> of jobs that no worker knew and how many, one after the other; and how many jobs are dead.

local latest = 0
local newest = call('ZRANGE', prefix .. 'all', -1, -1)[1]
if newest then
    latest = tonumber(call('GETRANGE', prefix .. 'job:' .. newest, 15, 30)) or 0 -- when it was accepted
end

local queues = {}
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
        queues[#queues + 1] = { queue, due, micros(oldest), call('HGET', prefix .. 'paused', queue) }
    end
end
for _, paused in ipairs(call('HVALS', prefix .. 'paused')) do
    latest = math.max(latest, tonumber(paused))
end
local unknown, dead = call('HGETALL', prefix .. 'unknown'), call('ZCARD', prefix .. 'dead')
return { micros(now), latest > 0 and micros(latest), queues, unknown, dead }
