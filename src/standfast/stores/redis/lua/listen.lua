-- uses: bell
-- A listener asks: was this tone rung since epoch `seen`? If not, it waits from now on and is woken by the next ring.
-- Both in one step, so that no ring falls between the question and the waiting.
--
-- ARGV: time, tone, listener, seen. Returns the present epoch, or nothing if it is `seen` still.

local STALE_AFTER_MS = 60000 -- a live listener registers anew every few seconds: what is older was left by a dead one

local tone, listener, seen = ARGV[2], ARGV[3], ARGV[4]
local epoch = call('GET', epoch_key(tone)) or '0'
if epoch ~= seen then
    return epoch
end
local waiting = waiting_key(tone)
local now_ms = math.floor(now / 1000)
call('DEL', prefix .. 'ear:' .. listener) -- what is left in it rang before `seen`
call('ZREMRANGEBYSCORE', waiting, '-inf', now_ms - STALE_AFTER_MS)
call('ZADD', waiting, now_ms, listener)
call('PEXPIRE', waiting, STALE_AFTER_MS)
return false
