-- uses: claims, lanes
-- Renew leases, and bring back what supervisors have to know.
--
-- ARGV: time, MessagePack of {worker, closed_call, fences of the held jobs by id} for each
-- Returns the time, accepted workers, revoked and replaced claims (worker, id, fence, one after the other),
--   paused queues, workers with unnamed claims, expired workers, how long until the next lease ends (or nothing),
--   <version>:<task> of jobs that no worker knew, queues with suspects.

local beats = cmsgpack.unpack(ARGV[2])
local calling, condemned = {}, {}
for _, worker in ipairs(call('SMEMBERS', prefix .. 'condemned')) do
    condemned[worker] = true
end

local function lease_of(worker)
    local registration = call('HGET', prefix .. 'workers', worker)
    local _, _, lease = cmsgpack.unpack(registration or '')
    return lease
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

local accepted, unnamed, own_lease = {}, {}, 0
for _, beat in ipairs(beats) do
    local worker = beat[1]
    local lease = lease_of(worker)
    calling[worker] = true
    if lease and not condemned[worker] then
        accepted[#accepted + 1], own_lease = worker, lease
        call('ZREM', prefix .. 'leases', worker) -- a full server accepts this, and with it the next one
        call('ZADD', prefix .. 'leases', now + lease, worker)
        if has_unnamed(worker, beat[2], beat[3]) then
            unnamed[#unnamed + 1] = worker
        end
    end
end

-- A beat that seems to come from the future, as the server's clock was set back, counts as one of now.
for _, worker in ipairs(call('ZRANGEBYSCORE', prefix .. 'leases', '(' .. micros(now + own_lease), '+inf')) do
    local latest = now + lease_of(worker)
    if tonumber(call('ZSCORE', prefix .. 'leases', worker)) > latest then
        call('ZREM', prefix .. 'leases', worker)
        call('ZADD', prefix .. 'leases', latest, worker)
    end
end

local expired, next_expiry = {}, false
local leases = call('ZRANGE', prefix .. 'leases', 0, -1, 'WITHSCORES')
for place = 1, #leases, 2 do
    local worker, ends_at = leases[place], tonumber(leases[place + 1])
    local is_over = condemned[worker] or ends_at < now
    if is_over and not calling[worker] then
        expired[#expired + 1] = worker
    elseif not is_over and not calling[worker] then
        next_expiry = next_expiry or micros(ends_at - now)
    end
end

local function has_due_suspects(queue)
    local has_lane = false
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
        local alone, _, unknown_version = lane_parts(lane)
        has_lane = has_lane or alone
        if alone and not unknown_version and call('ZCOUNT', lane_key(queue, lane), '-inf', micros(now)) > 0 then
            return true
        end
    end
    if not has_lane then
        call('SREM', prefix .. 'suspects', queue)
    end
    return false
end

local suspects = {}
for _, queue in ipairs(call('SMEMBERS', prefix .. 'suspects')) do
    if has_due_suspects(queue) and call('HEXISTS', prefix .. 'paused', queue) == 0 then
        suspects[#suspects + 1] = queue
    end
end
return {
    micros(now), accepted, revoked, replaced, call('HKEYS', prefix .. 'paused'), unnamed, expired, next_expiry,
    call('HKEYS', prefix .. 'unknown'), suspects,
}
