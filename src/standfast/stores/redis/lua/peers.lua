-- uses: reading
-- Part: workers that serve the same queues are a group, and take turns. A registration says of which its worker is.

local function peers_key(group)
    return prefix .. 'peers:' .. group
end

local function polled_key(group)
    return prefix .. 'polled:' .. group
end

-- The lease and the group of a registered worker. Those that an older release registered are of one without a name.
local function registration_of(worker)
    local is_whole, _, _, lease, _, group = pcall(cmsgpack.unpack, call('HGET', prefix .. 'workers', worker) or '')
    return is_whole and lease, is_whole and group or ''
end

local function is_registered(worker)
    return call('ZSCORE', prefix .. 'leases', worker)
end

local function join(worker, group)
    call('ZADD', peers_key(group), 0, worker)
end

local function depart(worker, group)
    call('ZREM', peers_key(group), worker)
    call('ZREM', polled_key(group), worker)
end

-- An older release buries workers and leaves them here: the first of a group sees to it that they do not stay.
local function tidy(worker, group)
    local first = call('ZRANGE', peers_key(group), 0, 0)[1]
    if first == worker or not is_registered(first) then
        local peers = call('ZRANGE', peers_key(group), 0, -1)
        for place, ends_at in ipairs(each_of('ZMSCORE', prefix .. 'leases', peers)) do
            if not ends_at then
                depart(peers[place], group)
            end
        end
    end
end

-- When one of the living of a group looked for work without being called, if that was told.
local function last_poll(group, is_over)
    local place = 0
    while true do
        local last = call('ZREVRANGE', polled_key(group), place, place, 'WITHSCORES')
        if not last[1] or (not is_over[last[1]] and is_registered(last[1])) then
            return last[2] or false
        end
        place = place + 1
    end
end

-- The rank of a living worker in its group, how many of that live, and when one of them polled.
local function turn_of(worker, group, over, is_over)
    tidy(worker, group)
    local key = peers_key(group)
    local rank, size, before = call('ZRANK', key, worker), call('ZCARD', key), 0
    for _, dead in ipairs(over) do
        local place = call('ZRANK', key, dead)
        size = size - (place and 1 or 0)
        before = before + (place and place < rank and 1 or 0)
    end
    return rank - before, size, last_poll(group, is_over)
end
