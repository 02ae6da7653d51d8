-- uses: lanes, claims, tally
-- seldom: waiting (find_job, leave, let_wait)
-- Give jobs to a living worker.
--
-- ARGV: time, worker, call, limit, alone (1 or 0), max_wait (micros, or empty), look_ahead (micros), ahead_limit,
--   MessagePack of 1 queues (nothing: all), 2 shares, 3 known tasks, each with its version
-- Returns nothing if the worker is not registered; else the time, when the next one is due (or nothing), the jobs,
-- and for
--   each one with a life its place among them, fence, attempt, crashes and run_at (empty: the first one), one
--   after the other.

local worker, number, limit, wants_alone = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local max_wait, horizon, ahead_limit = tonumber(ARGV[6]), now + tonumber(ARGV[7]), tonumber(ARGV[8])
local asked, shares, adopted = unpack(cmsgpack.unpack(ARGV[9]), 1, 3)

if call('HEXISTS', prefix .. 'workers', worker) == 0 then
    return false
end

-- -- which queues, and in which order ----------------------------------------------------------------------

local function turned(line, by)
    local size, moved = #line, {}
    for place = 1, size do
        moved[place] = line[(place - 1 + by) % size + 1]
    end
    return moved
end

local function open_queues()
    local paused, seen, open = {}, {}, {}
    for _, queue in ipairs(call('HKEYS', prefix .. 'paused')) do
        paused[queue] = true
    end
    for _, queue in ipairs(asked or call('ZRANGE', prefix .. 'queues', 0, -1)) do
        if not paused[queue] and not seen[queue] then
            open[#open + 1], seen[queue] = queue, true
        end
    end
    return asked and open or turned(open, number - 1)
end

local queues = open_queues()
local visit = asked and number or math.floor((number - 1) / math.max(#queues, 1)) + 1

-- -- which lanes ---------------------------------------------------------------------------------------------

local newest_known = {}
for _, task in ipairs(adopted) do
    newest_known[task[1]] = math.max(newest_known[task[1]] or 0, task[2])
end

local function is_adopted(version, task)
    return newest_known[task] and version <= newest_known[task]
end

-- Suspects that this worker knows are blocked no more: they wait for a child of their own.
if #adopted > 0 then
    local rare = waiting()

    local function unblock(queue, lane)
        for _, member in ipairs(call('ZRANGE', lane_key(queue, lane), 0, -1)) do
            local job = rare.find_job(member_id(member))
            rare.leave(job)
            rare.let_wait(job, 'scheduled')
        end
    end

    for _, queue in ipairs(queues) do
        for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
            local alone, _, version, task = lane_parts(lane)
            if alone and task and is_adopted(version, task) then
                unblock(queue, lane)
            end
        end
    end
end

-- The priorities of a queue, highest first, each with its lanes: the one of jobs that any worker takes, and those
-- adopted.
local function levels_of(queue)
    local levels, by_priority = {}, {}
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local alone, priority, version, task = lane_parts(lane)
        if alone == wants_alone and (not task or is_adopted(version, task)) then
            local level = by_priority[priority]
            if not level then
                level = { priority = priority, lanes = {}, starved = 0, next = 1, given = {} }
                by_priority[priority] = level
                levels[#levels + 1] = level
            end
            level.lanes[#level.lanes + 1] =
                { queue = queue, name = lane, key = lane_key(queue, lane), version = version, task = task, taken = {} }
        end
    end
    table.sort(levels, function(one, other) return one.priority > other.priority end)
    return levels
end

-- -- choosing those that are due -------------------------------------------------------------------------------

local function by_time(one, other)
    if one.run_at ~= other.run_at then
        return one.run_at < other.run_at
    elseif one.priority ~= other.priority then
        return one.priority > other.priority
    end
    return member_arrival(one.member) < member_arrival(other.member)
end

-- Put the first members of several lanes into one line.
local function merged(lanes, priority, after, until_at, most)
    local entries = {}
    for _, lane in ipairs(lanes) do
        local found = call('ZRANGEBYSCORE', lane.key, after, until_at, 'WITHSCORES', 'LIMIT', 0, most)
        for place = 1, #found, 2 do
            entries[#entries + 1] =
                { member = found[place], run_at = tonumber(found[place + 1]), lane = lane, priority = priority }
        end
    end
    return entries
end

-- The first due members of a level, as many as one call can give.
local function fill(level)
    if level.members then
        return
    end
    level.members = {}
    if #level.lanes == 1 then
        level.members = call('ZRANGEBYSCORE', level.lanes[1].key, '-inf', now, 'LIMIT', 0, limit)
        return
    end
    local entries = merged(level.lanes, level.priority, '-inf', now, limit)
    table.sort(entries, by_time)
    level.from = {}
    for place = 1, math.min(#entries, limit) do
        level.members[place], level.from[place] = entries[place].member, entries[place].lane
    end
end

local chosen, chosen_lanes = {}, {}

local function choose(level, place)
    local lane = level.from and level.from[place] or level.lanes[1]
    level.given[place] = true
    chosen[#chosen + 1], chosen_lanes[#chosen + 1] = level.members[place], lane
    lane.taken[#lane.taken + 1] = level.members[place]
end

-- The most urgent one.
local function choose_urgent(line)
    while line.urgent <= #line.levels do
        local level = line.levels[line.urgent]
        fill(level)
        while level.given[level.next] do
            level.next = level.next + 1
        end
        if level.members[level.next] then
            choose(level, level.next)
            return true
        end
        line.urgent = line.urgent + 1
    end
    return false
end

-- One of those that have waited for half of max_wait: the oldest of each priority, priority by priority, then the
-- next ones.
local function choose_starved(line)
    while line.round <= line.rounds do
        while line.turn <= #line.starving do
            local level = line.starving[line.turn]
            line.turn = line.turn + 1
            fill(level)
            if line.round <= level.starved and level.members[line.round] and not level.given[line.round] then
                choose(level, line.round)
                return true
            end
        end
        line.round, line.turn = line.round + 1, 1
    end
    return false
end

-- The due jobs of one queue in this call. Where it is asked a second time its places go on. As long as only the
-- highest priority has jobs that have waited long, they come first anyway.
local function line_of(queue)
    local line = { levels = levels_of(queue), place = visit, urgent = 1, round = 1, rounds = 0, turn = 1, starving = {} }
    if max_wait and limit > 0 and #line.levels > 1 then
        local passed_over = false
        for depth = #line.levels, 1, -1 do
            local level = line.levels[depth]
            for _, lane in ipairs(level.lanes) do
                level.starved = level.starved + call('ZCOUNT', lane.key, '-inf', now - max_wait / 2)
            end
            if level.starved > 0 then
                line.starving[#line.starving + 1] = level
                passed_over = passed_over or depth > 1
            end
            line.rounds = math.max(line.rounds, math.min(level.starved, limit))
        end
        line.starving = passed_over and turned(line.starving, math.floor((visit - 1) / 2)) or {}
    end
    return line
end

local function give(line, places)
    while places > 0 do
        local is_given = line.place % 2 == 1 and #line.starving > 0 and choose_starved(line)
        if not is_given and not choose_urgent(line) then
            return
        end
        line.place, places = line.place + 1, places - 1
    end
end

local lines, share_of = {}, {}
for _, queue in ipairs(queues) do
    lines[queue] = line_of(queue)
end
if asked and shares then
    for place, queue in ipairs(asked) do
        share_of[queue] = shares[place]
    end
    for _, queue in ipairs(queues) do
        give(lines[queue], math.min(share_of[queue], limit - #chosen))
    end
end
for _, queue in ipairs(queues) do
    give(lines[queue], limit - #chosen)
end

-- -- choosing those that are due soon ----------------------------------------------------------------------

if not wants_alone and ahead_limit > 0 and horizon > now then
    local entries = {}
    for _, queue in ipairs(queues) do
        for _, level in ipairs(lines[queue].levels) do
            for _, entry in ipairs(merged(level.lanes, level.priority, '(' .. micros(now), micros(horizon), ahead_limit)) do
                entries[#entries + 1] = entry
            end
        end
    end
    table.sort(entries, by_time)
    for place = 1, math.min(#entries, ahead_limit) do
        local member, lane = entries[place].member, entries[place].lane
        chosen[#chosen + 1], chosen_lanes[#chosen + 1] = member, lane
        lane.taken[#lane.taken + 1] = member
    end
end

-- -- giving them -------------------------------------------------------------------------------------------

local next_due
for _, queue in ipairs(queues) do
    for _, level in ipairs(lines[queue].levels) do
        for _, lane in ipairs(level.lanes) do
            in_bites('ZREM', lane.key, lane.taken)
            local first = call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
            if not first[1] then
                close_lane(queue, lane.name)
            elseif not lane.task and (not next_due or tonumber(first[2]) < tonumber(next_due)) then
                next_due = first[2]
            end
            if lane.task and #lane.taken > 0 then
                count_unknown(lane.version, lane.task, -#lane.taken)
                count('blocked', queue, -#lane.taken)
            end
        end
    end
end

local sub, job_prefix, keys = string.sub, prefix .. 'job:', {}
for place = 1, #chosen do
    keys[place] = job_prefix .. sub(chosen[place], ARRIVAL_DIGITS + 2)
end
local texts = values_of(keys)

local function new_claim(lane, flag, fence)
    return claim_text({
        worker = worker, fence = fence, call = number, queue = lane.queue, flag = flag, state = 'held', cancel = false,
    })
end

local jobs, lives, claims, held, again, size = {}, {}, {}, {}, {}, 0

-- Return the claim of a job that is not fresh, and note its numbers.
local function claim_again(id, lane, flag)
    local life = call('HMGET', prefix .. 'life:' .. id, 'f', 'a', 'c', 't')
    local fence = (tonumber(life[1]) or 0) + 1
    for _, value in ipairs({ size, fence, tonumber(life[2]) or 0, tonumber(life[3]) or 0, life[4] or '' }) do
        lives[#lives + 1] = value
    end
    again[lane.queue] = again[lane.queue] or {}
    table.insert(again[lane.queue], id)
    return new_claim(lane, flag, fence)
end

for place = 1, #chosen do
    local text, member, lane = texts[place], chosen[place], chosen_lanes[place]
    if text then -- else someone has taken the job away by hand
        local flag, id = sub(member, 16, 16), sub(member, 17)
        size = size + 1
        local claim = lane[flag]
        if flag >= '2' then
            claim = claim_again(id, lane, flag)
        elseif not claim then
            claim = new_claim(lane, flag, 1)
            lane[flag] = claim -- the same for all fresh jobs of this lane
        end
        jobs[size], held[size] = text, id
        claims[2 * size - 1], claims[2 * size] = id, claim
        lane.held = (lane.held or 0) + 1
    end
end
for _, queue in ipairs(queues) do
    for _, level in ipairs(lines[queue].levels) do
        for _, lane in ipairs(level.lanes) do
            count('held', queue, lane.held or 0)
        end
    end
end
in_bites('HSET', prefix .. 'claims', claims)
in_bites('SADD', prefix .. 'held:' .. worker, held)
for queue, ids in pairs(again) do
    in_bites('ZREM', prefix .. 'again:' .. queue, ids)
end
write_tally()
return { micros(now), next_due or false, jobs, lives }
