-- uses: accepting, cancelling, bell
-- End a dead job and accept another in its place, or do neither.
--
-- ARGV: time, id, columns of the other (MessagePack; accepting.lua), what is stored of it
-- Returns nothing without such a job; else its state as it was; or, where the key of the other is taken, 'taken', task,
--   key, id and state of the job that has it.

local job = find_job(ARGV[2])
if not job or job.state ~= 'dead' then
    return job and { shown_state(job) }
end
local rare = { key_holder = key_holder, key_name = key_name, replace = replace, shown_state = shown_state }
local jobs = in_columns(cmsgpack.unpack(ARGV[3]), ARGV[4])
leave_out_known(jobs)
local holder = meet(jobs, rare)
if holder then
    return { 'taken', unpack(holder) }
end
write_jobs(jobs, rare) -- first: here a full server refuses all of it
call('ZREM', prefix .. 'dead', job.id)
count('dead', job.queue, -1)
end_job(job, 'cancelled', 'discarded')
write_tally()
wake('work')
ring('result')
return { 'dead' }
