-- uses: burial, bell, peers
-- Remove a worker and give its claims back as was decided.
--
-- ARGV: time, worker, must it be condemned (1 or 0), the fingerprint of what was seen,
--   MessagePack of {id, state, how, attempt, crashes, group, error of the attempt, error of the job} for each claim
-- Returns 1 if that was done, or if there is nothing to bury; 0 if something is no longer as it was seen.

local worker, must_be_condemned, seen, fates = ARGV[2], ARGV[3] == '1', ARGV[4], cmsgpack.unpack(ARGV[5])
if not is_to_be_buried(worker, must_be_condemned) then
    return 1
end
if fingerprint_of(worker) ~= seen then
    return 0
end
for _, fate in ipairs(fates) do
    local id, state, how, attempt, crashes, group, error_of_attempt, error_of_job = unpack(fate, 1, 8)
    local job = find_job(id)
    job.attempt, job.crashes, job.group = attempt, crashes, group
    close_claim(job, how, 'burial', { error = error_of_attempt })
    if state == 'dead' then
        job.error = error_of_job
        end_job(job, 'dead')
    elseif state == 'cancelled' then
        give_up(job)
    else
        let_wait(job, 'scheduled')
    end
end
local _, group = registration_of(worker)
depart(worker, group)
call('HDEL', prefix .. 'workers', worker)
call('HDEL', prefix .. 'vitals', worker)
call('ZREM', prefix .. 'leases', worker)
call('SREM', prefix .. 'condemned', worker)
call('DEL', prefix .. 'held:' .. worker)
call('ZADD', prefix .. 'buried', now, worker)
write_tally()
if #fates > 0 then
    ring('work')
    ring('result')
end
return 1
