-- uses: cancelling, bell
-- ARGV: time, id. Returns what became of the wish to cancel the job, or nothing without such a job.

local outcome = cancel_job(ARGV[2])
if outcome == 'cancelled' then
    write_tally()
    ring('result')
end
return outcome
