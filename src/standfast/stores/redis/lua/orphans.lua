-- uses: burial
-- What a dead worker leaves behind, for who decides what becomes of it.
--
-- ARGV: time, worker, must it be condemned (1 or 0)
-- Returns nothing if it is not to be buried; else a fingerprint of what was seen, and of each claim id, fence,
--   state, attempt, crashes, max_attempts, group, asked to cancel, how often it crashed alone, replaced.

local worker, must_be_condemned = ARGV[2], ARGV[3] == '1'
if not is_to_be_buried(worker, must_be_condemned) then
    return false
end

local function crashes_alone(id)
    local folded = folded_of(id)[2].crashed
    local crashes, life = folded and folded[4] or 0, redis.pcall('HGETALL', prefix .. 'life:' .. id)
    for place = 1, #life, 2 do
        local parts = string.sub(life[place], 1, 1) == 'h' and parts_of(life[place + 1])
        crashes = crashes + (type(parts) == 'table' and parts[4] == 'crashed' and 1 or 0)
    end
    return crashes
end

local orphans = {}
for _, id in ipairs(orphans_of(worker)) do
    local job = find_job(id)
    orphans[#orphans + 1] = {
        id, job.fence, job.state, job.attempt, job.crashes, job.max_attempts, job.group,
        job.cancel and 1 or 0, crashes_alone(id), is_replaced(job) and 1 or 0,
    }
end
return { fingerprint_of(worker), orphans }
