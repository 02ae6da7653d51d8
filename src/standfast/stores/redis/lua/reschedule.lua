-- uses: deciding, bell
-- Let a job that waits for its time be due at another.
--
-- ARGV: time, id, micros when it is due
-- Returns nothing without such a job; else its state as it was, if it could not be done, or ''.

local state = reschedule_job(ARGV[2], tonumber(ARGV[3]))
if state == '' then
    write_tally()
    ring('work')
end
return state or false
