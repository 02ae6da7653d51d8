-- uses: lanes
-- How old queues are. Writes nothing.
--
-- ARGV: time
-- Returns the time; and of each queue with due jobs that nobody has claimed its name, since when the oldest is due and
--   since when it is paused (or nothing).

local queues = {}
for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
    local oldest = math.huge
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local _, _, unknown_version = lane_parts(lane)
        local first = not unknown_version and call('ZRANGE', lane_key(queue, lane), 0, 0, 'WITHSCORES')[2]
        oldest = math.min(oldest, first and tonumber(first) or math.huge)
    end
    if oldest <= now then
        queues[#queues + 1] = { queue, micros(oldest), call('HGET', prefix .. 'paused', queue) }
    end
end
return { micros(now), queues }
