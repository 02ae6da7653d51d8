-- uses: clock
-- Part: the bell, for every script that wakes somebody.
--
--   epoch:result      string  how often this tone was rung; a listener compares it with what it saw last. For the
--                             tone of work it is the number of the last arrival, which rises with every enqueue.
--   waiting:<tone>    zset    listeners that wait for this tone, each by when it said so (ms). Expires.
--   ear:<listener>    list    what a listener blocks on: the epoch of the ring that woke it. Expires.
--
-- A ring wakes all who wait and forgets them; who wants to hear the next one registers again (listen.lua). So a ring
-- costs two commands while nobody waits. All of it is a hint: losing these keys delays a job, and no more.

local EAR_LASTS_MS = 60000

local function epoch_key(tone)
    return tone == 'work' and prefix .. 'arrivals' or prefix .. 'epoch:' .. tone
end

local function waiting_key(tone)
    return prefix .. 'waiting:' .. tone
end

-- Wake all who wait for a tone, whose epoch has changed.
local function wake(tone)
    local listeners = call('ZRANGE', waiting_key(tone), 0, -1)
    if #listeners > 0 then
        local epoch = call('GET', epoch_key(tone))
        call('DEL', waiting_key(tone))
        for _, listener in ipairs(listeners) do
            local ear = prefix .. 'ear:' .. listener
            call('LPUSH', ear, epoch)
            call('PEXPIRE', ear, EAR_LASTS_MS)
        end
    end
end

local function ring(tone)
    call('INCR', epoch_key(tone))
    wake(tone)
end
