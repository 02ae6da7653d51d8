-- uses: cancelling, bell
-- Retry, cancel, discard or reschedule jobs.
--
-- ARGV: time, action, micros when they are due (to reschedule), MessagePack of the ids
-- Returns for each of them 1 if it was changed, its state as it was, and task, key, id and state of the job that has
--   its key, where that is why not. The state is empty without such a job.

local action, run_at = ARGV[2], tonumber(ARGV[3])
local is_woken, has_ended = false, false

-- Make a dead job ready, or a scheduled one due now.
local function retry(job, state)
    if state == 'dead' then
        local holder = job.key and key_holder(job.task, job.key)
        if holder then
            return { 0, state, job.task, job.key, holder.id, shown_state(holder) }
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
        return { 0, state }
    end
    let_wait(job, 'scheduled', nil, now)
    is_woken = true
    return { 1, state }
end

local function discard(job, state)
    if state ~= 'dead' then
        return { 0, state }
    end
    call('ZREM', prefix .. 'dead', job.id)
    count('dead', job.queue, -1)
    end_job(job, 'cancelled', 'discarded')
    has_ended = true
    return { 1, state }
end

local function reschedule(job, state)
    if job.state ~= 'scheduled' or is_suspended(job) then
        return { 0, state }
    end
    leave(job)
    let_wait(job, 'scheduled', job.reason, run_at)
    is_woken = true
    return { 1, state }
end

local function cancel(job, state)
    local outcome = cancel_job(job.id)
    has_ended = has_ended or outcome == 'cancelled'
    return { outcome == 'too_late' and 0 or 1, state }
end

local act = ({ retry = retry, discard = discard, reschedule = reschedule, cancel = cancel })[action]
local outcomes = {}
for place, id in ipairs(cmsgpack.unpack(ARGV[4])) do
    local job = find_job(id)
    outcomes[place] = job and act(job, shown_state(job)) or { 0, '' }
end
if is_woken or has_ended then
    write_tally()
end
if is_woken then
    ring('work')
end
if has_ended then
    ring('result')
end
return outcomes
