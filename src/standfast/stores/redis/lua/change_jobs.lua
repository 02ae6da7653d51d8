-- uses: deciding, bell
-- Do to many jobs what requeue, cancel, discard or reschedule does to one.
--
-- ARGV: time, action, micros when they are due (to reschedule), MessagePack of the ids
-- Returns the ids of those to which it was done.

local action, run_at, changed = ARGV[2], tonumber(ARGV[3]), {}

local function is_changed(id)
    if action == 'retry' then
        local state = requeue_job(id)
        return state == 'dead' or state == 'scheduled'
    elseif action == 'discard' then
        return discard_job(id) == 'dead'
    elseif action == 'reschedule' then
        return reschedule_job(id, run_at) == ''
    end
    if type(redis.pcall('HGET', prefix .. 'life:' .. id, 'n')) == 'string' then
        return false -- it is to replace a claimed job
    end
    local outcome = cancel_job(id)
    return outcome == 'cancelled' or outcome == 'requested'
end

for _, id in ipairs(cmsgpack.unpack(ARGV[4])) do
    if is_changed(id) then
        changed[#changed + 1] = id
    end
end
if #changed > 0 then
    write_tally()
    ring('work')
    ring('result')
end
return changed
