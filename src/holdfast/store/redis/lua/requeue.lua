-- uses: ending, bell
-- Make a dead job ready, or a scheduled one due now.
--
-- ARGV: time, id
-- Returns nothing without such a job; else its state as it was; or, where its key is taken, 'taken', task, key,
--   id and state of the job that has it.

local job = find_job(ARGV[2])
if not job then
    return false
end
local state = shown_state(job)
if state == 'dead' then
    local holder = job.key and key_holder(job.task, job.key)
    if holder then
        return { 'taken', job.task, job.key, holder.id, shown_state(holder) }
    end
    call('ZREM', prefix .. 'dead', job.id)
    count('dead', job.queue, -1)
    if job.key then
        give_key(job, job.id)
    end
    job.attempt, job.crashes, job.error, job.cancel = 0, 0, nil, false
elseif state == 'scheduled' then
    leave(job)
else
    return { state }
end
let_wait(job, 'scheduled', nil, now)
write_tally()
ring('work')
return { state }
