-- uses: lanes, members
-- Part: which due jobs a queue gives in one call, as `ClaimRequest` says. A wish is what is asked for: group,
-- call, limit, ahead_limit, max_wait (micros, or nothing), visit, newest_known: the version by task that its worker knows, and
-- closed_tasks (or nothing): the tasks that give nothing but what is adopted; marks: by lane, from where on to look.
--
-- A level is a priority of a queue with its lanes: the one of jobs that any worker takes, and those of jobs that
-- this worker knows and others did not. A line is a queue in this call: where it is asked a second time, its places
-- go on.

local function is_adopted(wish, version, task)
    return wish.newest_known[task] and version <= wish.newest_known[task]
end

local function turned(list, by)
    local size, moved = #list, {}
    for place = 1, size do
        moved[place] = list[(place - 1 + by) % size + 1]
    end
    return moved
end

-- The levels of a queue, highest first.
local function levels_of(wish, queue)
    local levels, by_priority = {}, {}
    for _, name in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local group, priority, version, task = lane_parts(name)
        if group == wish.group and (not task or is_adopted(wish, version, task)) then
            local level = by_priority[priority]
            if not level then
                level = { priority = priority, lanes = {}, starved = 0, next = 1, given = {} }
                by_priority[priority], levels[#levels + 1] = level, level
            end
            local key = lane_key(queue, name)
            local lane = { queue = queue, name = name, key = key, version = version, task = task, taken = {} }
            level.lanes[#level.lanes + 1] = lane
        end
    end
    table.sort(levels, function(one, other) return one.priority > other.priority end)
    return levels
end

local TASK_AT = 74 -- of what is stored of a job (base.lua), after its numbers and its id
local LONGEST_NUMBER = 9 -- bytes that follow the task and hold its version
local PASSED_AT_MOST = 1000 -- members of a lane that one call looks at: nobody else is served meanwhile

-- Whether a job is of a closed task. Of what is stored of it, which may be long, its task alone is read.
local function is_of_closed_task(wish, member)
    if not wish.packed then
        wish.packed, wish.longest = {}, 0
        for place, task in ipairs(wish.closed_tasks) do
            wish.packed[place] = cmsgpack.pack(task)
            wish.longest = math.max(wish.longest, #wish.packed[place])
        end
    end
    local job = prefix .. 'job:' .. string.sub(member, ID_AT)
    local said = call('GETRANGE', job, TASK_AT, TASK_AT + wish.longest - 1)
    for _, task in ipairs(wish.packed) do
        if string.sub(said, 1, #task) == task then
            return true
        end
    end
    return false
end

-- The version and the task of a job that is of one of the unknown tasks, from a version on; else nothing.
local function unknown_version(unknown, member)
    local job, longest = prefix .. 'job:' .. string.sub(member, ID_AT), 0
    for _, task in ipairs(unknown) do
        task.packed = task.packed or cmsgpack.pack(task[1])
        longest = math.max(longest, #task.packed)
    end
    local said = redis.pcall('GETRANGE', job, TASK_AT, TASK_AT + longest + LONGEST_NUMBER - 1)
    for _, task in ipairs(type(said) == 'string' and unknown or {}) do
        if string.sub(said, 1, #task.packed) == task.packed then
            local is_whole, _, version = pcall(cmsgpack.unpack_one, said, #task.packed)
            local is_meant = is_whole and type(version) == 'number' and version >= task[2]
            return is_meant and version or nil, task[1]
        end
    end
    return nil
end

-- The first members of a lane that are not of closed tasks, as many as this call may want, each followed by its time:
-- from the front, or from where an earlier script of the same worker has come to (claim.py).
local function open_of(wish, lane)
    if lane.open then
        return lane.open
    end
    local mark = wish.marks and wish.marks[lane.key]
    lane.from = mark and call('ZCOUNT', lane.key, '-inf', '(' .. micros(mark[1])) + mark[2] or 0
    local listed = call('ZRANGE', lane.key, lane.from, lane.from + PASSED_AT_MOST - 1, 'WITHSCORES')
    lane.open, lane.looked_until = {}, #listed == 2 * PASSED_AT_MOST and tonumber(listed[#listed])
    for place = 1, #listed, 2 do
        if #lane.open > 2 * (wish.limit + wish.ahead_limit) then
            break
        elseif not is_of_closed_task(wish, listed[place]) then
            lane.open[#lane.open + 1], lane.open[#lane.open + 2] = listed[place], tonumber(listed[place + 1])
        end
    end
    return lane.open
end

-- The first members of a lane after a time (nothing: all) and until another one, each followed by its time.
local function members_between(wish, lane, after, until_at, most)
    if not wish.closed_tasks or lane.task then
        local exclusive = after and '(' .. micros(after) or '-inf'
        return call('ZRANGEBYSCORE', lane.key, exclusive, micros(until_at), 'WITHSCORES', 'LIMIT', 0, most)
    end
    local found, open = {}, open_of(wish, lane)
    for place = 1, #open, 2 do
        local time = open[place + 1]
        if #found < 2 * most and (not after or time > after) and time <= until_at then
            found[#found + 1], found[#found + 2] = open[place], time
        end
    end
    return found
end

-- When the first job of a lane is due that is left, but for those of closed tasks; nothing if there is none.
local function next_time(wish, lane, first)
    if not wish.closed_tasks then
        return first
    end
    local taken, open = {}, open_of(wish, lane)
    for _, member in ipairs(lane.taken) do
        taken[member] = true
    end
    for place = 1, #open, 2 do
        if not taken[open[place]] then
            return micros(open[place + 1])
        end
    end
    return nil
end

-- As long as only the highest priority has jobs that have waited for half of max_wait, these come first anyway.
local function line_of(wish, queue)
    local levels, starving, rounds = levels_of(wish, queue), {}, 0
    local passed_over = false
    if wish.max_wait and wish.limit > 0 and #levels > 1 then
        for depth = #levels, 1, -1 do
            local level = levels[depth]
            for _, lane in ipairs(level.lanes) do
                local since = now - wish.max_wait / 2
                level.starved = level.starved
                    + (wish.closed_tasks and #members_between(wish, lane, nil, since, wish.limit) / 2
                        or call('ZCOUNT', lane.key, '-inf', since))
            end
            if level.starved > 0 then
                starving[#starving + 1] = level
                passed_over = passed_over or depth > 1
            end
            rounds = math.max(rounds, math.min(level.starved, wish.limit))
        end
        starving = passed_over and turned(starving, math.floor((wish.visit - 1) / 2)) or {}
    end
    local line = { levels = levels, place = wish.visit, urgent = 1, starving = starving, rounds = rounds }
    line.round, line.turn = 1, 1
    return line
end

local function by_time(one, other)
    if one.run_at ~= other.run_at then
        return one.run_at < other.run_at
    elseif one.priority ~= other.priority then
        return one.priority > other.priority
    end
    return string.sub(one.member, 1, ARRIVAL_DIGITS) < string.sub(other.member, 1, ARRIVAL_DIGITS)
end

-- Add the first members of a level's lanes between two times to a list.
local function look(wish, level, after, until_at, most, entries)
    for _, lane in ipairs(level.lanes) do
        local found = members_between(wish, lane, after, until_at, most)
        for place = 1, #found, 2 do
            local entry = { member = found[place], run_at = tonumber(found[place + 1]), lane = lane }
            entry.priority = level.priority
            entries[#entries + 1] = entry
        end
    end
end

-- The first due members of a level, as many as one call can give, and the lane of each.
local function fill(wish, level)
    if level.members then
        return
    end
    level.from = {}
    if #level.lanes == 1 and not wish.closed_tasks then
        level.members = call('ZRANGEBYSCORE', level.lanes[1].key, '-inf', now, 'LIMIT', 0, wish.limit)
        return
    end
    local entries = {}
    look(wish, level, nil, now, wish.limit, entries)
    table.sort(entries, by_time)
    level.members = {}
    for place = 1, math.min(#entries, wish.limit) do
        level.members[place], level.from[place] = entries[place].member, entries[place].lane
    end
end

local chosen, chosen_lanes = {}, {}

local function choose(member, lane)
    local size = #chosen + 1
    chosen[size], chosen_lanes[size] = member, lane
    lane.taken[#lane.taken + 1] = member
end

local function choose_at(level, place)
    level.given[place] = true
    choose(level.members[place], level.from[place] or level.lanes[1])
    return true
end

-- The most urgent one.
local function choose_urgent(wish, line)
    while line.urgent <= #line.levels do
        local level = line.levels[line.urgent]
        fill(wish, level)
        while level.given[level.next] do
            level.next = level.next + 1
        end
        if level.members[level.next] then
            return choose_at(level, level.next)
        end
        line.urgent = line.urgent + 1
    end
    return false
end

-- One of those that have waited long: the oldest of each priority, priority by priority, then the next ones.
local function choose_starved(wish, line)
    while line.round <= line.rounds do
        while line.turn <= #line.starving do
            local level = line.starving[line.turn]
            line.turn = line.turn + 1
            fill(wish, level)
            if line.round <= level.starved and level.members[line.round] and not level.given[line.round] then
                return choose_at(level, line.round)
            end
        end
        line.round, line.turn = line.round + 1, 1
    end
    return false
end

-- Choose so many of a line at most: in every second place one that has waited long.
local function give(wish, line, places)
    while places > 0 do
        local is_given = line.place % 2 == 1 and #line.starving > 0 and choose_starved(wish, line)
        if not is_given and not choose_urgent(wish, line) then
            return
        end
        line.place, places = line.place + 1, places - 1
    end
end
