-- Part: the time, in micros, and what every key begins with (base.lua).

local call = redis.call
local prefix = KEYS[1] .. ':'

local now = tonumber(ARGV[1])
if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
