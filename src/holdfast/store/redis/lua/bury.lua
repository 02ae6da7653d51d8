-- uses: burial, bell, peers
-- Remove a worker and give its claims back as was decided.
--
-- ARGV: time, worker, must it be condemned (1 or 0), the mark of what was seen,
--   MessagePack of {id, state, how, attempt, crashes, alone, error of the attempt, error of the job} for each claim
-- Returns 1 if that was done, or if there is nothing to bury; 0 if something is no longer as it was seen.

local worker = ARGV[2]
if not is_to_be_buried(worker, ARGV[3] == '1') then
    return 1
end
if mark_of(worker) ~= ARGV[4] then
    return 0
end
local fates = cmsgpack.unpack(ARGV[5])
for _, fate in ipairs(fates) do
    local job = find_job(fate[1])
    job.attempt, job.crashes, job.alone = fate[4], fate[5], fate[6]
    close_claim(job, fate[3], 'burial', { error = fate[7] })
    if fate[2] == 'dead' then
        job.error = fate[8]
        end_job(job, 'dead')
    elseif fate[2] == 'cancelled' then
        give_up(job)
    else
        let_wait(job, 'scheduled')
    end
end
local _, group = registration_of(worker)
part(worker, group)
call('HDEL', prefix .. 'workers', worker)
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
