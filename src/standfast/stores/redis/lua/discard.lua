-- uses: deciding, bell
-- ARGV: time, id. Ends a dead job. Returns its state as it was, or nothing without such a job.

local state = discard_job(ARGV[2])
if state == 'dead' then
    write_tally()
    ring('result')
end
return state
