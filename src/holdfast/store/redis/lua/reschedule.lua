-- uses: waiting, bell
-- Let a job that waits for its time be due at another.
--
-- ARGV: time, id, micros when it is due
-- Returns nothing without such a job; else its state as it was, if it could not be done, or ''.

local job = find_job(ARGV[2])
if not job then
    return false
end
if job.state ~= 'scheduled' or is_suspended(job) then
    return shown_state(job)
end
leave(job)
let_wait(job, 'scheduled', job.reason, tonumber(ARGV[3]))
ring('work')
return ''
