-- uses: base
-- Part: how many jobs of a queue are in a state. A script counts as it goes and writes what it counted at its end.

local counted = {}

local function count(state, queue, change)
    local field = state .. ':' .. queue
    counted[field] = (counted[field] or 0) + change
end

local function write_tally()
    for field, change in pairs(counted) do
        if change ~= 0 and call('HINCRBY', prefix .. 'tally', field, change) == 0 then
            call('HDEL', prefix .. 'tally', field)
        end
    end
    counted = {}
end
