-- uses: base
-- Part: the bell, for every script that wakes somebody.
--
--   epoch:<tone>      string  how often this tone was rung; a listener compares it with what it saw last
--   waiting:<tone>    zset    listeners that wait for this tone, each by when it said so (ms). Expires.
--   ear:<listener>    list    what a listener blocks on: the epoch of the ring that woke it. Expires.
--
-- A ring wakes all who wait and forgets them; who wants to hear the next one registers again (listen.lua). So a ring
-- costs two commands while nobody waits. All of it is a hint: losing these keys delays a job, and no more.

local EAR_LASTS_MS = 60000

local function ring(tone)
    local epoch = call('INCR', prefix .. 'epoch:' .. tone)
    local waiting = prefix .. 'waiting:' .. tone
    local listeners = call('ZRANGE', waiting, 0, -1)
    if #listeners > 0 then
        call('DEL', waiting)
        for _, listener in ipairs(listeners) do
            local ear = prefix .. 'ear:' .. listener
            call('LPUSH', ear, epoch)
            call('PEXPIRE', ear, EAR_LASTS_MS)
        end
    end
end
