-- uses: ending, bell
-- ARGV: time, id. Ends a dead job. Returns its state as it was, or nothing without such a job.

local job = find_job(ARGV[2])
if not job or job.state ~= 'dead' then
    return job and shown_state(job)
end
call('ZREM', prefix .. 'dead', job.id)
count('dead', job.queue, -1)
end_job(job, 'cancelled', 'discarded')
write_tally()
ring('result')
return 'dead'
