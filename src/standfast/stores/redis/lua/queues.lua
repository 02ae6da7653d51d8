-- uses: lanes
-- ARGV: time. Returns what is counted (<state>:<queue> and how many), of each queue with jobs that wait for their
-- time its name, how many are due and how many are not, and of each paused one its name and since when.

local waiting = {}
for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
    local ready, all = 0, 0
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local _, _, unknown_version = lane_parts(lane)
        if not unknown_version then
            ready = ready + call('ZCOUNT', lane_key(queue, lane), '-inf', micros(now))
            all = all + call('ZCARD', lane_key(queue, lane))
        end
    end
    waiting[#waiting + 1] = { queue, ready, all - ready }
end
return { call('HGETALL', prefix .. 'tally'), waiting, call('HGETALL', prefix .. 'paused') }
