-- uses: claims, lanes, peers
-- Renew leases, and bring back what supervisors have to know.
--
-- ARGV: time, MessagePack of {worker, closed_call, fences of the held jobs by id, polled_at, vitals} for each,
--   MessagePack of the kinds of records
-- Returns the time, accepted workers, revoked and replaced claims (worker, id, fence, one after the other),
--   paused queues, workers with unnamed claims, expired workers, how long until the next lease ends (or nothing),
--   <version>:<task> of jobs that no worker knew, due suspects (queue, group, how many), the turns (worker,
--   rank, of how many, when one of them polled, or nothing), when the first record is due (or nothing).

local beats, kinds = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
local calling, condemned = {}, {}
for _, worker in ipairs(call('SMEMBERS', prefix .. 'condemned')) do
    condemned[worker] = true
end

local revoked, replaced = {}, {}

local function note(list, worker, id, fence)
    local size = #list
    list[size + 1], list[size + 2], list[size + 3] = worker, id, fence
end

-- Whether a worker has claims of closed calls that it does not name; on the way, which of its claims are wanted
-- back.
local function has_unnamed(worker, closed_call, named)
    local ids, unnamed = call('SMEMBERS', prefix .. 'held:' .. worker), false
    local texts = each_of('HMGET', prefix .. 'claims', ids)
    for place, id in ipairs(ids) do
        local claim = read_claim(texts[place])
        if claim then
            if claim.cancel then
                note(revoked, worker, id, claim.fence)
            end
            if claim.flag ~= '0' and call('HEXISTS', prefix .. 'followers', id) == 1 then
                note(replaced, worker, id, claim.fence)
            end
            unnamed = unnamed or (claim.call <= closed_call and named[id] ~= claim.fence)
        end
    end
    return unnamed
end

local accepted, groups, unnamed, own_lease = {}, {}, {}, 0
for _, beat in ipairs(beats) do
    local worker = beat[1]
    local lease, group = registration_of(worker)
    calling[worker] = true
    if lease and not condemned[worker] then
        accepted[#accepted + 1], groups[#groups + 1], own_lease = worker, group, lease
        call('ZREM', prefix .. 'leases', worker) -- a full server accepts this, and with it the next one
        call('ZADD', prefix .. 'leases', now + lease, worker)
        join(worker, group)
        if beat[4] then
            call('ZADD', polled_key(group), beat[4], worker)
        end
        if beat[5] then
            call('HSET', prefix .. 'vitals', worker, beat[5])
        end
        if has_unnamed(worker, beat[2], beat[3]) then
            unnamed[#unnamed + 1] = worker
        end
    end
end

-- A beat that seems to come from the future, as the server's clock was set back, counts as one of now.
for _, worker in ipairs(call('ZRANGEBYSCORE', prefix .. 'leases', '(' .. micros(now + own_lease), '+inf')) do
    local latest = now + (registration_of(worker) or 0)
    if tonumber(call('ZSCORE', prefix .. 'leases', worker)) > latest then
        call('ZREM', prefix .. 'leases', worker)
        call('ZADD', prefix .. 'leases', latest, worker)
    end
end

-- Those whose lease has run out or who are marked dead, and among them those who do not call.
local over, is_over, expired = {}, {}, {}

local function note_over(worker)
    over[#over + 1], is_over[worker] = worker, true
    if not calling[worker] then
        expired[#expired + 1] = worker
    end
end

for _, worker in ipairs(call('ZRANGEBYSCORE', prefix .. 'leases', '-inf', '(' .. micros(now))) do
    note_over(worker)
end
for worker in pairs(condemned) do
    if not is_over[worker] and is_registered(worker) then
        note_over(worker)
    end
end

local next_expiry, others = false, #beats + #over + 1 -- among so many is one that neither calls nor is over
local leases = call('ZRANGEBYSCORE', prefix .. 'leases', micros(now), '+inf', 'WITHSCORES', 'LIMIT', 0, others)
for place = 1, #leases, 2 do
    local worker = leases[place]
    if not is_over[worker] and not calling[worker] then
        next_expiry = micros(tonumber(leases[place + 1]) - now)
        break
    end
end

local turns = {}
for place, worker in ipairs(accepted) do
    if not is_over[worker] then -- as it is where its lease is shorter than nothing
        turns[#turns + 1] = { worker, turn_of(worker, groups[place], over, is_over) }
    end
end

local record_due_at = false
for _, kind in ipairs(kinds) do
    local due_at = call('ZRANGE', prefix .. 'due:' .. kind, 0, 0, 'WITHSCORES')[2]
    if due_at and (not record_due_at or tonumber(due_at) < tonumber(record_due_at)) then
        record_due_at = due_at
    end
end

-- How many suspects of a queue are due, by their group.
local function due_suspects(queue)
    local has_lane, due = false, {}
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local group, _, unknown_version = lane_parts(lane)
        has_lane = has_lane or group > 0
        local size = group > 0 and not unknown_version and call('ZCOUNT', lane_key(queue, lane), '-inf', micros(now)) or 0
        if size > 0 then
            due[group] = (due[group] or 0) + size
        end
    end
    if not has_lane then
        call('SREM', prefix .. 'suspects', queue)
    end
    return due
end

local suspects = {}
for _, queue in ipairs(call('SMEMBERS', prefix .. 'suspects')) do
    if call('HEXISTS', prefix .. 'paused', queue) == 0 then
        for group, size in pairs(due_suspects(queue)) do
            suspects[#suspects + 1] = { queue, group, size }
        end
    end
end
return {
    micros(now), accepted, revoked, replaced, call('HKEYS', prefix .. 'paused'), unnamed, expired, next_expiry,
    call('HKEYS', prefix .. 'unknown'), suspects, turns, record_due_at,
}
