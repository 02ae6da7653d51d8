-- Part: the members of lanes. Each is <arrival, 15 digits><flag><id>: so jobs of one time are by arrival, and a claim
-- learns from the flag whether there is more to look at. The flag is + 1 for a key, + 2 for a life.

local ARRIVAL_DIGITS = 15
local FLAG_AT, ID_AT = ARRIVAL_DIGITS + 1, ARRIVAL_DIGITS + 2
local LIFE_FLAG = '2' -- or more
