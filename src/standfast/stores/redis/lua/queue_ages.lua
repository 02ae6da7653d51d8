-- uses: lanes
-- How old queues are. Writes nothing.
--
-- ARGV: time
-- Returns the time; and of each queue with due jobs that nobody has claimed its name, since when the oldest is due and
--   since when it is paused (or nothing); and of each of its lanes with due jobs that no worker knew the queue, task,
--   version and since when the oldest is due.

local queues, unknown = {}, {}
for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
    local oldest = math.huge
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local _, _, unknown_version, task = lane_parts(lane)
        local first = tonumber(call('ZRANGE', lane_key(queue, lane), 0, 0, 'WITHSCORES')[2] or math.huge)
        if not unknown_version then
            oldest = math.min(oldest, first)
        elseif first <= now then
            unknown[#unknown + 1] = { queue, task, unknown_version, micros(first) }
        end
    end
    if oldest <= now then
        queues[#queues + 1] = { queue, micros(oldest), call('HGET', prefix .. 'paused', queue) }
    end
end
return { micros(now), queues, unknown }
