-- uses: deciding, bell
-- Make a dead job ready, or a scheduled one due now.
--
-- ARGV: time, id
-- Returns nothing without such a job; else its state as it was; or, where its key is taken, 'taken', task, key,
--   id and state of the job that has it.

local state, taken = requeue_job(ARGV[2])
if state == 'dead' or state == 'scheduled' then
    write_tally()
    ring('work')
end
return state and (taken or { state }) or false
