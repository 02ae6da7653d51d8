-- uses: recording
-- The latest fires, of one schedule or of all.
--
-- ARGV: time, MessagePack of 1 schedule (nothing: all), 2 before when they were planned (nothing: any time),
--   how many, 1 or more
-- Returns them: schedule, what is stored of it, one after the other. They are in no order, there are more where many
--   were planned for the time of the last one, and there may be some that were planned before it.

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

-- Find the latest fires of a schedule, and all others of the same time as the last one of them.
local function look(name)
    local key, first, is_later = fires_key(name), bar == -math.huge and '-inf' or micros(bar), false
    local last = call('ZREVRANGEBYSCORE', key, latest, first, 'WITHSCORES', 'LIMIT', limit - 1, 1)[2]
    local fires = call('ZREVRANGEBYSCORE', key, latest, last or first, 'WITHSCORES')
    for place = 1, #fires, 2 do
        local planned = tonumber(fires[place + 1])
        found[#found + 1], found[#found + 2], times[#times + 1] = name, fires[place], planned
        is_later = is_later or planned > bar
    end
    if is_later and #times >= limit then
        raise_bar()
    end
end

if schedule then
    look(schedule)
    return found
end
local fired = call('ZREVRANGE', prefix .. 'fired', 0, -1, 'WITHSCORES')
for place = 1, #fired, 2 do
    if tonumber(fired[place + 1]) < bar then
        break
    end
    look(fired[place])
end
return found
