-- uses: clock
-- seldom: entrance (open_lane)
-- seldom: bell (wake)
-- Accept one job that has nothing to say but what every job says, which is due at once: as enqueue.lua does, with the
-- fewest calls. Whether its lane is there, and whether somebody waits for work, is asked in one: a key that is named
-- twice counts twice.
--
-- ARGV: time, id, what is stored of the job, queue, the name of its lane
-- Returns 1 if its id is known already, else 0.

local id, said, queue, lane = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local arrival = string.format('%015d', call('INCR', prefix .. 'arrivals'))
if call('SET', prefix .. 'job:' .. id, arrival .. string.format('%016d', now) .. said, 'NX') then
    local key = prefix .. 'lane:' .. #queue .. ':' .. queue .. ':' .. lane
    local found = call('EXISTS', key, key, prefix .. 'waiting:work')
    call('ZADD', prefix .. 'all', 0, id)
    call('ZADD', key, now, arrival .. '0' .. id)
    if found < 2 then
        entrance().open_lane(queue, lane)
    end
    if found % 2 == 1 then
        bell().wake('work')
    end
    return 0
end
return 1
