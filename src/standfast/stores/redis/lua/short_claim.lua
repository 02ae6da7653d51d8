-- uses: asked, members
-- Part: what comes first in a claim (claim.lua): the short way, where nothing waits, or one lane of jobs that any
-- worker takes, and none of those to be given has a life.

if call('HEXISTS', prefix .. 'workers', worker) == 0 then
    return false
end

-- The lanes that matter, if these are all of one queue.
local named, only_lanes = asked_queues or call('ZRANGE', prefix .. 'queues', 0, 1), nil
if #named <= 1 and not (closed or closed_tasks or unknown or group > 0 or #adopted > 0) and call('EXISTS', prefix .. 'paused') == 0 then
    only_lanes = named[1] and call('SMEMBERS', prefix .. 'lanes:' .. named[1]) or {}
    if #only_lanes == 0 then
        return { string.format('%.0f', now), false, {}, {} }
    end
end

local MOST = 1500 -- as many as one call of a command takes with ease

-- The members to be given, due ones first, and how many of them are due. Nothing if they are too many.
local function first_members(key)
    local members, ahead = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, math.min(limit, MOST + 1)), {}
    local due_size = #members
    if ahead_limit > 0 and horizon > now then
        local after, until_at = string.format('(%.0f', now), string.format('%.0f', horizon)
        ahead = call('ZRANGEBYSCORE', key, after, until_at, 'LIMIT', 0, math.min(ahead_limit, MOST + 1))
    end
    for place = 1, #ahead do
        members[due_size + place] = ahead[place]
    end
    return #members <= MOST and members or nil, due_size
end

-- Give jobs of the only lane; nothing if one of them has a life, or they are too many.
local function give_of(queue, lane)
    local key = prefix .. 'lane:' .. #queue .. ':' .. queue .. ':' .. lane
    local members, due_size = first_members(key)
    if not members then
        return nil
    end
    local sub, names, claim_by_flag = string.sub, {}, {}
    for place = 1, #members do
        local flag = sub(members[place], FLAG_AT, FLAG_AT)
        if flag >= LIFE_FLAG then
            return nil
        end
        names[place] = prefix .. 'job:' .. sub(members[place], ID_AT)
        claim_by_flag[flag] = claim_by_flag[flag]
            or cmsgpack.pack(worker, 1, call_number, queue, flag, 'held', false, nil, nil)
    end
    local texts = #names > 0 and call('MGET', unpack(names))
    local jobs, claims, held, size = {}, {}, {}, 0
    for place = 1, #members do
        local text = texts[place] or (call('EXISTS', names[place]) == 1 and '')
        if text then -- else someone has taken the job away by hand
            local id = sub(members[place], ID_AT)
            size = size + 1
            jobs[size], held[size] = text, id
            claims[2 * size - 1], claims[2 * size] = id, claim_by_flag[sub(members[place], FLAG_AT, FLAG_AT)]
        end
    end
    if due_size > 0 then
        call('ZREMRANGEBYRANK', key, 0, due_size - 1)
    end
    if #members > due_size then
        call('ZREM', key, unpack(members, due_size + 1))
    end
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if not first[1] then
        call('DEL', prefix .. 'lanes:' .. queue)
        call('ZREM', prefix .. 'queues', queue)
    end
    if size > 0 then
        call('HSET', prefix .. 'claims', unpack(claims))
        call('SADD', prefix .. 'held:' .. worker, unpack(held))
        call('HINCRBY', prefix .. 'tally', 'held:' .. queue, size)
    end
    return { string.format('%.0f', now), first[2] or false, jobs, {} }
end

if only_lanes and #only_lanes == 1 and string.find(only_lanes[1], '^0:%-?%d+$') then
    local given = give_of(named[1], only_lanes[1])
    if given then
        return given
    end
end
