-- uses: waiting, remembering, bell
-- Send a signal to a job that is not final; one that waits for it becomes ready.
--
-- ARGV: time, id, the reason of a job that waits for such a signal, the name of its memo, what is stored of that, how
--   many signals a job may be sent
-- Returns nothing without such a job; else 1, or 0 if it is final, or -1 if it was sent as many others.

local reason, name, text, most = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local job = find_job(ARGV[2])
if not job then
    return false
end
if job.finished_at then
    return 0
end
if call('HSETNX', memo_key(job.id), name, text) == 1 and signals_sent(job.id) > most then
    call('HDEL', memo_key(job.id), name)
    return -1
end
if shown_state(job) == 'scheduled' and job.reason == reason and has_signal(job.id, reason) then
    leave(job)
    let_wait(job, 'scheduled', nil, now)
    ring('work')
end
return 1
