-- uses: clock
-- Part: the way into lanes (lanes.lua).

local function lane_key(queue, lane)
    return prefix .. 'lane:' .. #queue .. ':' .. queue .. ':' .. lane
end

local function open_lane(queue, lane)
    call('SADD', prefix .. 'lanes:' .. queue, lane)
    call('ZADD', prefix .. 'queues', 0, queue)
    if string.sub(lane, 1, 2) ~= '0:' then
        call('SADD', prefix .. 'suspects', queue)
    end
end
