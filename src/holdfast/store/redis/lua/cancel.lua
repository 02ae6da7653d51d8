-- uses: ending, bell
-- ARGV: time, id. Returns what became of the wish to cancel the job, or nothing without such a job.

local job = find_job(ARGV[2])
if not job then
    return false
end
if job.claim then
    change_claim(job.id, job.claim, { cancel = true })
    return 'requested'
elseif job.state ~= 'scheduled' and job.state ~= 'blocked' then
    return 'too_late'
end
local after = job.after
leave(job)
end_job(job, 'cancelled', 'requested')
if after then
    -- While it waited so, the other one was claimed: it has its key back, and may be tried again.
    call('HDEL', prefix .. 'followers', after)
    give_key(job, after)
end
write_tally()
ring('result')
return 'cancelled'
