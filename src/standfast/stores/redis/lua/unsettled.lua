-- uses: lanes
-- ARGV: time, MessagePack of queues (nothing: all). Returns how many jobs of them a drain still waits for.

local asked, is_asked, unsettled = cmsgpack.unpack(ARGV[2]), {}, 0
for _, queue in ipairs(asked or {}) do
    is_asked[queue] = true
end

local tally = call('HGETALL', prefix .. 'tally')
for place = 1, #tally, 2 do
    local state, queue = string.match(tally[place], '^(%l+):(.*)$')
    if (state == 'held' or state == 'running') and (not asked or is_asked[queue]) then
        unsettled = unsettled + tonumber(tally[place + 1])
    end
end
for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
    if not asked or is_asked[queue] then
        local is_open = call('HEXISTS', prefix .. 'paused', queue) == 0
        for _, lane in ipairs(is_open and call('SMEMBERS', prefix .. 'lanes:' .. queue) or {}) do
            local _, _, unknown_version = lane_parts(lane)
            if not unknown_version then
                unsettled = unsettled + call('ZCOUNT', lane_key(queue, lane), '-inf', micros(now))
            end
        end
        unsettled = unsettled + call('ZCOUNT', prefix .. 'again:' .. queue, '(' .. micros(now), '+inf')
    end
end
return unsettled
