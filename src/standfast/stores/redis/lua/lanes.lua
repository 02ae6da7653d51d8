-- uses: base, entrance
-- Part: where jobs wait. A queue has a lane for each priority, and lanes apart for each group of suspects (model/crash.py) and
-- for jobs that no worker knew. A lane is named <0 or, for suspects, their group>:<priority>, and
-- <that>:<version>:<task> where no worker knew the task. Its members (members.lua) are by run_at. Ready and scheduled jobs are in one lane: which of them are due
-- is a question of the time.

-- Of which group of suspects a lane is, or 0, its priority, and, of one for jobs that no worker knew, their version and task.
local function lane_parts(lane)
    local group, priority, version, task = string.match(lane, '^(%d+):(%-?%d+):(%d+):(.*)$')
    if not group then
        group, priority = string.match(lane, '^(%d+):(%-?%d+)$')
    end
    return tonumber(group), tonumber(priority), tonumber(version), task
end

-- Forget a lane that is empty, and its queue with the last one.
local function close_lane(queue, lane)
    call('SREM', prefix .. 'lanes:' .. queue, lane)
    if call('EXISTS', prefix .. 'lanes:' .. queue) == 0 then
        call('ZREM', prefix .. 'queues', queue)
    end
end

local function count_unknown(version, task, change)
    local field = version .. ':' .. task
    if call('HINCRBY', prefix .. 'unknown', field, change) == 0 then
        call('HDEL', prefix .. 'unknown', field)
    end
end
