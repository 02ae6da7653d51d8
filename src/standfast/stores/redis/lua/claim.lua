-- uses: asked, members, choosing, claims, tally
-- first: short_claim
-- seldom: waiting (find_job, leave, let_wait)
-- Give jobs to a living worker. It looks at every lane of the queues that are asked for, and of all queues where none
-- are named: what a call takes grows with queues and priorities, and not with the jobs that wait.
--
-- ARGV: as asked.lua says
-- Returns nothing if the worker is not registered; else the time, when the next one is due (or nothing), the jobs,
--   and for each one with a life its place among them, fence, attempt, crashes and run_at (empty: the first one).
--   Where tasks are closed also the lanes behind whose marks there may be more, each with its next mark.

local wish = { limit = limit, ahead_limit = ahead_limit, group = group, max_wait = max_wait, newest_known = {} }
wish.closed_tasks, wish.marks = closed_tasks, marks

-- -- which queues, and in which order -----------------------------------------------------------------------------

local shut, seen, queues = {}, {}, {}
for _, names in ipairs({ call('HKEYS', prefix .. 'paused'), closed or {} }) do
    for _, queue in ipairs(names) do
        shut[queue] = true
    end
end
for _, queue in ipairs(asked_queues or call('ZRANGE', prefix .. 'queues', 0, -1)) do
    if not shut[queue] and not seen[queue] then
        queues[#queues + 1], seen[queue] = queue, true
    end
end
wish.visit = call_number
if not asked_queues then
    wish.visit = math.floor((call_number - 1) / math.max(#queues, 1)) + 1
    queues = turned(queues, call_number - 1)
end

-- -- suspects that this worker knows are blocked no more: they wait for a child of their own ----------------------

for _, task in ipairs(adopted) do
    wish.newest_known[task[1]] = math.max(wish.newest_known[task[1]] or 0, task[2])
end
local rare = (#adopted > 0 or unknown) and waiting()
if #adopted > 0 then
    for _, queue in ipairs(queues) do
        for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
            local of_group, _, version, task = lane_parts(lane)
            local is_meant = of_group > 0 and task and is_adopted(wish, version, task)
            for _, member in ipairs(is_meant and call('ZRANGE', lane_key(queue, lane), 0, -1) or {}) do
                local job = rare.find_job(string.sub(member, ID_AT))
                if job then
                    rare.leave(job)
                    rare.let_wait(job, 'scheduled')
                end
            end
        end
    end
end

-- -- what this worker does not know of the first due jobs waits for one that does ---------------------------------

local function put_aside(queue, lane)
    local key, gone, entering = lane_key(queue, lane), {}, {}
    local first = call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, PASSED_AT_MOST)
    for place = 1, #first, 2 do
        local member, version, task = first[place], unknown_version(unknown, first[place])
        local id, flag = string.sub(member, ID_AT), tonumber(string.sub(member, FLAG_AT, FLAG_AT))
        if version and flag >= tonumber(LIFE_FLAG) then
            local job = rare.find_job(id)
            if job then
                rare.leave(job)
                rare.let_wait(job, 'blocked', 'no_worker')
            end
        elseif version and type(redis.pcall('HSET', prefix .. 'life:' .. id, 's', 'blocked', 'y', 'no_worker')) == 'number' then
            local other = lane .. ':' .. version .. ':' .. task
            local into = entering[other] or { version = version, task = task }
            entering[other], gone[#gone + 1] = into, member
            into[#into + 1] = first[place + 1]
            into[#into + 1] = string.sub(member, 1, ARRIVAL_DIGITS) .. flag + tonumber(LIFE_FLAG) .. id
        end
    end
    in_bites('ZREM', key, gone)
    for other, members in pairs(entering) do
        in_bites('ZADD', lane_key(queue, other), members)
        open_lane(queue, other)
        count_unknown(members.version, members.task, #members / 2)
        count('blocked', queue, #members / 2)
    end
    if #gone > 0 and call('EXISTS', key) == 0 then
        close_lane(queue, lane)
    end
end

for _, queue in ipairs(unknown and queues or {}) do
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local of_group, _, version = lane_parts(lane)
        if of_group == group and not version then
            put_aside(queue, lane)
        end
    end
end

-- -- choosing: the due ones, and those that are due soon ----------------------------------------------------------

local lines = {}
for _, queue in ipairs(queues) do
    lines[queue] = line_of(wish, queue)
end
if asked_queues and shares then
    local share_of = {}
    for place, queue in ipairs(asked_queues) do
        share_of[queue] = shares[place]
    end
    for _, queue in ipairs(queues) do
        give(wish, lines[queue], math.min(share_of[queue], wish.limit - #chosen))
    end
end
for _, queue in ipairs(queues) do
    give(wish, lines[queue], wish.limit - #chosen)
end

if wish.group == 0 and ahead_limit > 0 and horizon > now then
    local entries = {}
    for _, queue in ipairs(queues) do
        for _, level in ipairs(lines[queue].levels) do
            look(wish, level, now, horizon, ahead_limit, entries)
        end
    end
    table.sort(entries, by_time)
    local left = ahead_limit
    for _, entry in ipairs(entries) do
        -- What waits for a signal stays: in a worker's hand it would not hear it.
        local has_life = string.sub(entry.member, FLAG_AT, FLAG_AT) >= LIFE_FLAG
        local reason = has_life and redis.pcall('HGET', prefix .. 'life:' .. string.sub(entry.member, ID_AT), 'y')
        if left > 0 and not (type(reason) == 'string' and string.sub(reason, 1, 7) == 'signal:') then
            choose(entry.member, entry.lane)
            left = left - 1
        end
    end
end

-- -- giving them --------------------------------------------------------------------------------------------------

local sub, job_prefix, keys = string.sub, prefix .. 'job:', {}
for place = 1, #chosen do
    keys[place] = job_prefix .. sub(chosen[place], ID_AT)
end
local texts = values_of(keys)
local jobs, lives, claims, held, again, size = {}, {}, {}, {}, {}, 0

local function new_claim(lane, flag, fence)
    local claim = { worker = worker, fence = fence, call = call_number, queue = lane.queue, flag = flag }
    claim.state, claim.cancel = 'held', false
    return claim_text(claim)
end

-- Return the claim of a job that is not fresh, and note its numbers.
local function claim_again(id, lane, flag)
    local life = redis.pcall('HMGET', prefix .. 'life:' .. id, 'f', 'a', 'c', 't')
    if life.err or (life[1] and not tonumber(life[1])) or (life[2] and not tonumber(life[2])) then
        life = { false, false, false, 'no life that can be read' }
    end
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
    text = text or (call('EXISTS', keys[place]) == 1 and '') -- what is there and no text cannot be read
    if text then -- else someone has taken the job away by hand
        local flag, id = sub(member, FLAG_AT, FLAG_AT), sub(member, ID_AT)
        local claim = lane[flag]
        size = size + 1
        if flag >= LIFE_FLAG then
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

-- -- what is left -------------------------------------------------------------------------------------------------

local next_due, more = false, {}

-- Note where to go on in a lane, if all was of closed tasks as far as this call has looked, and there is more in reach.
local function go_on(lane, found)
    if found or not lane.looked_until or lane.looked_until > horizon then
        return
    end
    local time = micros(lane.looked_until)
    local rank, before = lane.from + PASSED_AT_MOST - #lane.taken, call('ZCOUNT', lane.key, '-inf', '(' .. time)
    more[#more + 1], more[#more + 2], more[#more + 3] = lane.key, time, rank - before
end

local function leave_behind(queue, lane)
    in_bites('ZREM', lane.key, lane.taken)
    count('held', queue, lane.held or 0)
    if lane.task and #lane.taken > 0 then
        count_unknown(lane.version, lane.task, -#lane.taken)
        count('blocked', queue, -#lane.taken)
    end
    local first = call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
    if not first[1] then
        close_lane(queue, lane.name)
    elseif not lane.task then
        local time = next_time(wish, lane, first[2])
        if wish.closed_tasks then
            go_on(lane, time)
        end
        if time and (not next_due or tonumber(time) < tonumber(next_due)) then
            next_due = time
        end
    end
end

for _, queue in ipairs(queues) do
    for _, level in ipairs(lines[queue].levels) do
        for _, lane in ipairs(level.lanes) do
            leave_behind(queue, lane)
        end
    end
end
in_bites('HSET', prefix .. 'claims', claims)
in_bites('SADD', prefix .. 'held:' .. worker, held)
for queue, ids in pairs(again) do
    in_bites('ZREM', prefix .. 'again:' .. queue, ids)
end
write_tally()
return { micros(now), next_due, jobs, lives, more }
