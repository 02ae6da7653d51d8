-- uses: recording
-- The latest fires, of one schedule or of all.
--
-- ARGV: time, MessagePack of 1 schedule (nothing: all), 2 before when they were planned (nothing: any time),
--   how many, 1 or more
-- Returns them: schedule, what is stored of it, one after the other. They are in no order, there are more where many
--   were planned for the time of the last one, and there may be some that were planned before it.

local STRETCH = 100 -- so many schedules are asked for at once

local schedule, before = unpack(cmsgpack.unpack(ARGV[2]), 1, 2)
local limit, latest = tonumber(ARGV[3]), before and '(' .. micros(before) or '+inf'
local found, times = {}, {} -- what was found, and the times of the latest of these
local bar = -math.huge -- what was planned before this is not wanted any more

local function raise_bar()
    table.sort(times, function(one, other) return one > other end)
    bar = times[limit]
    for place = #times, limit + 1, -1 do
        times[place] = nil
    end
end

local function note(name, fire, planned)
    found[#found + 1], found[#found + 2] = name, fire
    times[#times + 1] = planned
end

-- The fires of a schedule for the time of the last one of a full page that are not on it.
local function rest_of(key, page)
    local last, on_it = page[#page], 0
    while page[#page - 2 * on_it] == last do
        on_it = on_it + 1
    end
    return call('ZREVRANGEBYSCORE', key, last, last, 'LIMIT', on_it, -1)
end

-- Find the latest fires of a schedule, and all others for the time of the last one of them.
local function look(name)
    local key, first = fires_key(name), bar == -math.huge and '-inf' or micros(bar)
    local page = call('ZREVRANGEBYSCORE', key, latest, first, 'WITHSCORES', 'LIMIT', 0, limit)
    for place = 1, #page, 2 do
        note(name, page[place], tonumber(page[place + 1]))
    end
    for _, fire in ipairs(#page == 2 * limit and rest_of(key, page) or {}) do
        note(name, fire, tonumber(page[#page]))
    end
    if page[2] and tonumber(page[2]) > bar and #times >= limit then
        raise_bar()
    end
end

if schedule then
    look(schedule)
    return found
end

-- Look at schedules until what is left of them fired before that; tell whether there may be more.
local function look_at(fired)
    for place = 1, #fired, 2 do
        if tonumber(fired[place + 1]) < bar then
            return false
        end
        look(fired[place])
    end
    return #fired > 0
end

local place = 0
while look_at(call('ZREVRANGE', prefix .. 'fired', place, place + STRETCH - 1, 'WITHSCORES')) do
    place = place + STRETCH
end
return found
